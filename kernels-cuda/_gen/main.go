// Program _gen writes what CUDA and Go must agree on, from the manifest: cu/params.cuh and kernels_gen.go. It also checks
// what the compiler reported about the kernels' resources.
//
//	GOWORK=off go run .                              in kernels-cuda/_gen: write
//	GOWORK=off go run . -check                       complain if what is there differs
//	GOWORK=off go run . -resources ../build/sm_90a   check the *.ptxas logs of an architecture
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail if a file differs")
	resources := flag.Bool("resources", false, "check the compiler's logs in the folders named")
	flag.Parse()
	if err := run(*check, *resources, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "kernels-cuda/_gen:", err)
		os.Exit(1)
	}
}

func run(check, resources bool, dirs []string) error {
	slices.SortFunc(families, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	m, err := resolve(families)
	if err != nil {
		return err
	}
	if resources {
		for _, dir := range dirs {
			if err := m.checkResources(dir); err != nil {
				return err
			}
		}
		return nil
	}
	goFile, err := m.goSource()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path    string
		content []byte
	}{{"../cu/params.cuh", m.header()}, {"../kernels_gen.go", goFile}} {
		was, err := os.ReadFile(f.path)
		if err == nil && bytes.Equal(was, f.content) {
			continue
		}
		if check {
			return fmt.Errorf("%s differs from the manifest: run `make generate` in kernels-cuda", filepath.Base(f.path))
		}
		if err := os.WriteFile(f.path, f.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
