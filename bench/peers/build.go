package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// buildLlama builds llama.cpp for this very processor from the source inside the newest llama-cpp-python, and gives the programs' folder.
// What is there from an earlier run is used again: remove the folder to get a newer one.
func buildLlama(ctx context.Context, work string) (bin string, err error) {
	sdist := filepath.Join(work, "sdist")
	tars, _ := filepath.Glob(filepath.Join(sdist, "llama_cpp_python-*.tar.gz"))
	if len(tars) == 0 {
		if err := os.MkdirAll(sdist, 0o777); err != nil {
			return "", err
		}
		if err := command(ctx, "", "python3", "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "-d", sdist, "llama-cpp-python"); err != nil {
			return "", err
		}
		if tars, _ = filepath.Glob(filepath.Join(sdist, "llama_cpp_python-*.tar.gz")); len(tars) == 0 {
			return "", fmt.Errorf("pip left no llama_cpp_python-*.tar.gz in %s", sdist)
		}
	}
	source := filepath.Join(strings.TrimSuffix(tars[0], ".tar.gz"), "vendor", "llama.cpp")
	build := filepath.Join(source, "build")
	bin = filepath.Join(build, "bin")
	if _, err := os.Stat(filepath.Join(bin, "llama-batched-bench")); err == nil {
		return bin, nil
	}
	for _, args := range [][]string{
		{"tar", "-xzf", tars[0], "-C", sdist},
		{"cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DBUILD_SHARED_LIBS=OFF"},
		{"cmake", "--build", build, "--target", "llama-bench", "llama-batched-bench", "-j", fmt.Sprint(runtime.NumCPU())},
	} {
		if err := command(ctx, "", args...); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// buildMinfer builds the program of the tree that this module lies in.
func buildMinfer(ctx context.Context, work string) (string, error) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(work, 0o777); err != nil {
		return "", err
	}
	out := filepath.Join(work, "minfer-cli")
	return out, command(ctx, root, "env", "GOWORK=", "go", "build", "-o", out, "./cli/minfer-cli")
}

// command runs a build step and shows what it prints.
func command(ctx context.Context, dir string, args ...string) error {
	fmt.Fprintln(os.Stderr, "+", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// commit of the tree, or "" outside a repository.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
