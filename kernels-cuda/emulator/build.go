// Package emulator builds and runs the kernels' sources on the CPU, for tests: a process (_emu) that has a device's memory and runs its kernels,
// one thread a coroutine. What it can't show stands in the README of kernels-cuda.
package emulator

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// flags of the compiler. No sum may be contracted behind the sources' back.
var flags = []string{"-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-ffp-contract=off", "-Wno-attributes"}

// compiling at once: each takes some hundred MB.
const compiling = 2

// keep is for how long a built file stays in the cache.
const keep = 30 * 24 * time.Hour

// Build gives the path of the emulator with all kernels of dir, the folder kernels-cuda: from the user's cache if the same sources were built there by the
// same compiler, else built, file by file. Processes that want it at the same time wait for the first. ErrNoCompiler if there is no g++.
func Build(dir string) (exe string, err error) {
	version, err := exec.Command("g++", "--version").Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", ErrNoCompiler
	} else if err != nil {
		return "", fmt.Errorf("emulator: g++ --version: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("emulator: %w", err)
	}
	b := build{dir: dir, cache: filepath.Join(cache, "minfer", "emulator")}
	if err := errors.Join(b.plan(version), os.MkdirAll(b.cache, 0o755)); err != nil {
		return "", fmt.Errorf("emulator: %w", err)
	}
	if there(b.exe) {
		return b.exe, nil
	}
	unlock, err := lock(filepath.Join(b.cache, lockName))
	if err != nil {
		return "", fmt.Errorf("emulator: %w", err)
	}
	defer unlock()
	if err := b.run(); err != nil {
		return "", fmt.Errorf("emulator: %w", err)
	}
	return b.exe, nil
}

const lockName = "lock"

// ErrNoCompiler says that the emulator can't be built here.
var ErrNoCompiler = errors.New("emulator: there is no g++, which builds the kernels for the CPU")

// build of the kernels in dir. Built files are named after all that they are made of.
type build struct {
	dir, cache       string
	sources, objects []string
	exe              string
}

// plan reads the sources and names the files to be built.
func (b *build) plan(version []byte) error {
	headers := sha256.New()
	fmt.Fprintf(headers, "%s%q", version, flags)
	for _, pattern := range []string{"cu/*.cuh", "_emu/include/*"} { // any source may include any of them
		names, err := filepath.Glob(filepath.Join(b.dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := addFile(headers, name); err != nil {
				return err
			}
		}
	}
	exe := sha256.New()
	for _, pattern := range []string{"cu/*.cu", "_emu/*.cc"} {
		sources, err := filepath.Glob(filepath.Join(b.dir, pattern))
		if err != nil {
			return err
		}
		for _, source := range sources {
			object := sha256.New()
			object.Write(headers.Sum(nil))
			if err := addFile(object, source); err != nil {
				return err
			}
			b.sources = append(b.sources, source)
			b.objects = append(b.objects, b.file(object, ".o"))
			exe.Write(object.Sum(nil))
		}
	}
	if len(b.sources) == 0 {
		return fmt.Errorf("no kernels in %s: %w", b.dir, fs.ErrNotExist)
	}
	b.exe = b.file(exe, ".exe")
	return nil
}

// run builds what isn't there, under the lock.
func (b *build) run() error {
	b.sweep()
	errs := make([]error, len(b.sources))
	limit := make(chan struct{}, compiling)
	var wg sync.WaitGroup
	for i, source := range b.sources {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			errs[i] = b.compile(source, b.objects[i])
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return write(b.exe, slices.Concat(b.objects, []string{"-rdynamic", "-ldl"})...)
}

func (b *build) compile(source, object string) error {
	args := append(slices.Clone(flags), "-I"+filepath.Join(b.dir, "_emu", "include"), "-I"+filepath.Join(b.dir, "cu"), "-c")
	if filepath.Ext(source) == ".cu" {
		args = append(args, "-include", "emulator.h", "-x", "c++")
	}
	return write(object, append(args, source)...)
}

// sweep removes files that were built long ago: their sources are no more.
func (b *build) sweep() {
	files, _ := os.ReadDir(b.cache)
	for _, f := range files {
		if info, err := f.Info(); err == nil && f.Name() != lockName && time.Since(info.ModTime()) > keep {
			_ = os.Remove(filepath.Join(b.cache, f.Name()))
		}
	}
}

func (b *build) file(key hash.Hash, ext string) string {
	return filepath.Join(b.cache, fmt.Sprintf("%x%s", key.Sum(nil)[:16], ext))
}

func addFile(h hash.Hash, name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%s %d\n", filepath.Base(name), len(data))
	h.Write(data)
	return nil
}

func there(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// write has the compiler write a file, unless it is there. A file under its final name is whole.
func write(file string, args ...string) error {
	if there(file) {
		return nil
	}
	part := file + ".part"
	if out, err := exec.Command("g++", append(args, "-o", part)...).CombinedOutput(); err != nil {
		return fmt.Errorf("g++ %q: %w: %s", args, err, out)
	}
	return os.Rename(part, file)
}
