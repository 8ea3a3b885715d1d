package main

import (
	"fmt"
	"github.com/minfer-go/minfer/cli/defaultmodel"
	"github.com/minfer-go/minfer/cli/internal/env"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/tokenizer"
	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/kvformat"
)

// modelFlag names a model.
type modelFlag struct {
	Model string `short:"m" placeholder:"FILE" help:"GGUF file (any shard of a split one); default: the embedded story model."`
}

func (f modelFlag) path() string {
	if f.Model != "" {
		return f.Model
	}
	return env.Get("MINFER_MODEL")
}

// file opens the model's file without loading it.
func (f modelFlag) file() (*gguf.File, string, error) {
	if path := f.path(); path != "" {
		file, err := gguf.Open(path)
		return file, path, err
	}
	file, err := gguf.OpenBytes(defaultmodel.Bytes())
	return file, defaultmodel.Name, err
}

// vocabulary opens the model's file, to be closed by the caller, and its tokenizer; a file without tensors will do.
func (f modelFlag) vocabulary() (*gguf.File, *tokenizer.Tokenizer, error) {
	file, path, err := f.file()
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokenizer.FromGGUF(file)
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, tok, nil
}

// engineFlags say how a model is run.
type engineFlags struct {
	modelFlag
	Threads    int    `short:"t" placeholder:"N" help:"CPU threads; default: what affinity and the cgroup's quota allow."`
	Backend    string `enum:"auto,cpu" default:"auto" help:"auto or cpu."`
	CPUPath    string `name:"cpu-path" placeholder:"PATH" help:"Instruction path: avx512-vnni, avx2 or generic; default: the fastest."`
	CacheTypeK string `name:"cache-type-k" default:"f16" help:"KV cache format of K: f32, f16 or q8_0."`
	CacheTypeV string `name:"cache-type-v" default:"f16" help:"KV cache format of V: f32, f16 or q8_0."`
}

func (f engineFlags) load(a *app, chatTemplate string) (*engine.Model, error) {
	threads := f.Threads
	if threads == 0 {
		var err error
		if threads, err = env.Int("MINFER_THREADS"); err != nil {
			return nil, err
		}
	}
	path := f.CPUPath
	if path == "" {
		path = env.Get("MINFER_CPU_PATH")
	}
	o := engine.LoadOptions{Threads: threads, CPUPath: path, ChatTemplate: chatTemplate, Notice: a.notice}
	if p := f.path(); p != "" {
		return engine.Load(p, o)
	}
	return engine.LoadBytes(defaultmodel.Name, defaultmodel.Bytes(), o)
}

func (f engineFlags) formats() (key, value kvformat.Format, err error) {
	if key, err = kvformat.ParseFormat(f.CacheTypeK); err != nil {
		return key, value, usage("--cache-type-k: %w", err)
	}
	if value, err = kvformat.ParseFormat(f.CacheTypeV); err != nil {
		return key, value, usage("--cache-type-v: %w", err)
	}
	return key, value, nil
}
