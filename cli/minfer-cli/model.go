package main

import (
	"fmt"
	"slices"

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
func (f modelFlag) vocabulary(a *app) (*gguf.File, *tokenizer.Tokenizer, error) {
	file, path, err := f.file()
	if err != nil {
		return nil, nil, err
	}
	tok, err := tokenizer.FromGGUF(file)
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if s := tok.Notice(); s != "" {
		a.notice(s)
	}
	return file, tok, nil
}

// engineFlags say how a model is run.
type engineFlags struct {
	modelFlag
	Threads    int    `short:"t" placeholder:"N" help:"CPU threads; default: what affinity and the cgroup's quota allow."`
	Backend    string `enum:",auto,cpu,cuda" default:"" placeholder:"NAME" help:"auto, cpu or cuda; auto takes the GPU if it can run the whole model."`
	CPUPath    string `name:"cpu-path" placeholder:"PATH" help:"Instruction path: avx512-vnni, avx2 or generic; default: the fastest."`
	CacheTypeK string `name:"cache-type-k" placeholder:"TYPE" help:"KV cache format of K: f32, f16 (default) or q8_0."`
	CacheTypeV string `name:"cache-type-v" placeholder:"TYPE" help:"KV cache format of V: f32, f16 (default) or q8_0."`
	Profile    bool   `help:"Time every kind of work, or kernel on a GPU, and print tables on standard error at the end."`
}

// load opens the model on the backend that the flags and the environment say.
func (f engineFlags) load(a *app, chatTemplate string) (*engine.Model, error) {
	m, _, err := f.loadFor(a, chatTemplate, 0)
	return m, err
}

// loadFor is load for a context of ctx cells (0: the default); the chooser knows what runs the model and why.
func (f engineFlags) loadFor(a *app, chatTemplate string, ctx int) (*engine.Model, *chooser, error) {
	c, err := f.chooser(a, ctx)
	if err != nil {
		return nil, nil, err
	}
	o := engine.LoadOptions{ChatTemplate: chatTemplate, Notice: a.notice, Backend: c.open}
	var m *engine.Model
	if p := f.path(); p != "" {
		m, err = engine.Load(p, o)
	} else {
		m, err = engine.LoadBytes(defaultmodel.Name, defaultmodel.Bytes(), o)
	}
	return m, c, err
}

func (f engineFlags) chooser(a *app, ctx int) (*chooser, error) {
	c := &chooser{want: f.Backend, ctx: ctx}
	var err error
	if c.key, c.value, err = f.formats(); err != nil {
		return nil, err
	}
	if c.want == "" {
		c.want = env.Get("MINFER_BACKEND")
	}
	if !slices.Contains([]string{"auto", "cpu", "cuda"}, c.want) {
		return nil, fmt.Errorf("environment: MINFER_BACKEND=%q: want auto, cpu or cuda", c.want)
	}
	c.cpu.Threads, c.cpu.Path = f.Threads, f.CPUPath
	if c.cpu.Threads == 0 {
		if c.cpu.Threads, err = env.Int("MINFER_THREADS"); err != nil {
			return nil, err
		}
	}
	if c.cpu.Path == "" {
		c.cpu.Path = env.Get("MINFER_CPU_PATH")
	}
	if c.cuda, err = cudaOptions(a.cuda, a.notice); err != nil {
		return nil, err
	}
	c.cuda.Profile = c.cuda.Profile || f.Profile
	c.cpu.Profile = c.cuda.Profile
	return c, nil
}

func (f engineFlags) formats() (key, value kvformat.Format, err error) {
	parse := func(flag, s string) (kvformat.Format, error) {
		if s != "" {
			format, err := kvformat.ParseFormat(s)
			if err != nil {
				return format, usage("%s: %w", flag, err)
			}
			return format, nil
		}
		format, err := kvformat.ParseFormat(env.Get("MINFER_CACHE_TYPE"))
		if err != nil {
			return format, fmt.Errorf("environment: MINFER_CACHE_TYPE: %w", err)
		}
		return format, nil
	}
	if key, err = parse("--cache-type-k", f.CacheTypeK); err != nil {
		return key, value, err
	}
	value, err = parse("--cache-type-v", f.CacheTypeV)
	return key, value, err
}
