package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/minfer-go/minfer/cli/bench"
)

// plotFile is a picture to be drawn at the end of a run. Until then it is a file beside its place, so that a picture which stands there is
// replaced by a whole one or not at all.
type plotFile struct {
	path string
	file *os.File
}

// createPlot makes the file before anything is measured for it; nil for no path.
func createPlot(path string) (*plotFile, error) {
	if path == "" {
		return nil, nil
	}
	if ext := filepath.Ext(path); ext != ".svg" {
		return nil, usage("--plot %s: only SVG is drawn: give a name that ends in .svg", path)
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--plot %s: there is something that is no regular file", path)
	}
	f, err := os.Create(path + ".tmp")
	if err != nil {
		return nil, fmt.Errorf("--plot: %w", err)
	}
	return &plotFile{path, f}, nil
}

// draw writes the picture and puts it in its place.
func (p *plotFile) draw(results []bench.Result) error {
	err := errors.Join(bench.Plot(p.file, results), p.file.Close())
	if err == nil {
		err = os.Rename(p.file.Name(), p.path)
	}
	if err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	return nil
}

// discard removes what wasn't drawn.
func (p *plotFile) discard() {
	if p != nil {
		_ = p.file.Close()           // closed already if it was drawn
		_ = os.Remove(p.file.Name()) // gone already if it is in its place
	}
}
