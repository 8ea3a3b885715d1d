// Package shape proves the shape of the workspace: which module may depend on what, and that each module works for a
// consumer outside the workspace. It is a module of its own, no part of go.work: run its tests with GOWORK=off (as
// .ci/run does).
package shape

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/mod/modfile"
)

// Prefix of every module path in the workspace.
const Prefix = "github.com/minfer-go/minfer/"

// Version that siblings require of each other.
const Version = "v0.1.0"

// Module is one module of the workspace.
type Module struct {
	Name string // its path without Prefix, such as "backend-cpu"
	Dir  string
	File *modfile.File // its go.mod
}

// Modules reads the modules that go.work in root uses, in its order.
func Modules(root string) ([]Module, error) {
	name := filepath.Join(root, "go.work")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, data, nil)
	if err != nil {
		return nil, err
	}
	var mods []Module
	for _, use := range work.Use {
		dir := filepath.Join(root, filepath.FromSlash(use.Path))
		file := filepath.Join(dir, "go.mod")
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		m, err := modfile.Parse(file, data, nil)
		if err != nil {
			return nil, err
		}
		path := m.Module.Mod.Path
		if len(path) <= len(Prefix) || path[:len(Prefix)] != Prefix {
			return nil, fmt.Errorf("shape: %s: module path %q doesn't start with %s", file, path, Prefix)
		}
		mods = append(mods, Module{Name: path[len(Prefix):], Dir: dir, File: m})
	}
	return mods, nil
}
