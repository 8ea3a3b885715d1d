package main

import (
	"errors"
	"os"

	"github.com/minfer-go/minfer/cli/internal/env"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
)

// traceFile is a Chrome trace being recorded; nil if none was asked for.
type traceFile struct {
	path  string
	trace graph.Trace
}

// startTrace records the times of every node if MINFER_TRACE names a file.
func startTrace(ctx *engine.Context) *traceFile {
	path := env.Get("MINFER_TRACE")
	if path == "" {
		return nil
	}
	t := &traceFile{path: path, trace: graph.Trace{Times: true}}
	ctx.Executor().SetTrace(&t.trace)
	return t
}

func (t *traceFile) write() error {
	if t == nil {
		return nil
	}
	f, err := os.Create(t.path)
	if err != nil {
		return err
	}
	return errors.Join(t.trace.WriteChrome(f), f.Close())
}
