// Package engine loads Qwen models and generates text with them: it ties the file, the architecture, a backend, the tokenizer,
// the chat template and sampling together.
package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine/chat"
	"github.com/minfer-go/minfer/engine/sample"
	"github.com/minfer-go/minfer/engine/tokenizer"
	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/graph"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
	"github.com/minfer-go/minfer/quant"
)

// LoadOptions says how a model is loaded. The zero value is useful.
type LoadOptions struct {
	Threads      int          // CPU threads; 0: what affinity and the cgroup's quota allow
	CPUPath      string       // "avx512-vnni", "avx2", "generic"; "": the best there is
	ChatTemplate string       // Jinja source used in place of the file's
	Notice       func(string) // told what a user should know (a missing template, a vocabulary without types, …), a sentence at a time; may be nil

	// Backend opens what runs the model, once its metadata was read and before any weight: the one decision, for the whole
	// model. The model closes it. nil: a CPU backend of Threads and CPUPath.
	Backend func(net *modelsqwen.Model) (graph.Backend, error)
}

// Model is a loaded model. It is safe for concurrent use; its contexts are not.
type Model struct {
	name, path string
	file       *gguf.File
	net        *modelsqwen.Model
	backend    graph.Backend
	tok        *tokenizer.Tokenizer
	template   func() (*chat.Template, error)
	defaults   sample.Params
	notice     func(string)
	draws      bool
}

// Load opens a GGUF file (any shard of a split one) and makes its weights known to the backend. Weights stay in the mapped
// file.
func Load(path string, o LoadOptions) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	return load(f, path, o)
}

// LoadBytes loads a model from the bytes of a GGUF file, which must stay unchanged until Close. Name stands for the path in
// messages.
func LoadBytes(name string, data []byte, o LoadOptions) (*Model, error) {
	f, err := gguf.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return load(f, name, o)
}

func load(f *gguf.File, path string, o LoadOptions) (_ *Model, err error) {
	m := &Model{path: path, file: f, notice: o.Notice}
	if m.notice == nil {
		m.notice = func(string) {}
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", path, errors.Join(err, m.Close()))
		}
	}()
	if m.net, err = modelsqwen.New(f); err != nil {
		return nil, err
	}
	if m.tok, err = tokenizer.FromGGUF(f); err != nil {
		return nil, err
	}
	if m.tok.Size() > m.net.NVocab {
		return nil, fmt.Errorf("engine: the tokenizer has %d tokens, the embedding only %d rows: %w", m.tok.Size(), m.net.NVocab, modelsqwen.ErrInvalid)
	}
	if s := m.tok.Notice(); s != "" {
		m.notice(s)
	}
	if m.defaults, err = samplingDefaults(f, m.notice); err != nil {
		return nil, err
	}
	if m.name, _, err = gguf.Get[string](f, "general.name"); err != nil {
		return nil, err
	}
	m.template = sync.OnceValues(func() (*chat.Template, error) { return CompileTemplate(f, m.tok, o.ChatTemplate, m.notice) })
	if o.Backend == nil {
		o.Backend = func(*modelsqwen.Model) (graph.Backend, error) {
			return backendcpu.New(backendcpu.Options{Threads: o.Threads, Path: o.CPUPath})
		}
	}
	if m.backend, err = o.Backend(m.net); err != nil {
		m.backend = nil
		return nil, err
	}
	m.net.Drawable = m.tok.Size()
	m.draws = draws(m.backend, m.net.Drawable)
	for _, w := range m.net.Weights() {
		t, _ := f.Tensor(w.Name)
		data, err := f.TensorBytes(t)
		if err != nil {
			return nil, err
		}
		if err := m.backend.RegisterWeight(w, data); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Close releases the backend's weights and the file. Contexts of the model must be closed before.
func (m *Model) Close() error {
	var errs []error
	if m.backend != nil {
		m.backend.ReleaseModel(m.net.Fingerprint())
		errs = append(errs, m.backend.Close())
	}
	if m.file != nil {
		errs = append(errs, m.file.Close())
	}
	m.backend, m.file = nil, nil
	return errors.Join(errs...)
}

func (m *Model) cfg() *modelsqwen.Config { return &m.net.Config }

// Name of the model in its metadata, or "".
func (m *Model) Name() string { return m.name }

// Path the model was loaded from.
func (m *Model) Path() string { return m.path }

// File is the GGUF file behind the model.
func (m *Model) File() *gguf.File { return m.file }

// Config holds the hyper-parameters.
func (m *Model) Config() modelsqwen.Config { return m.net.Config }

// Net is the architecture with its weights' metadata; for graphs built outside a context.
func (m *Model) Net() *modelsqwen.Model { return m.net }

// Tokenizer of the model.
func (m *Model) Tokenizer() *tokenizer.Tokenizer { return m.tok }

// Template is the chat template, compiled at the first call.
func (m *Model) Template() (*chat.Template, error) { return m.template() }

// SampleDefaults are llama.cpp's sampling defaults overlaid with the file's general.sampling.* keys.
func (m *Model) SampleDefaults() sample.Params { return m.defaults }

// Backend that runs the model.
func (m *Model) Backend() graph.Backend { return m.backend }

// Draws reports whether the backend draws tokens by itself (Context.StepDraw).
func (m *Model) Draws() bool { return m.draws }

// draws asks the backend for the op.
func draws(b graph.Backend, vocab int) bool {
	logits := &graph.Node{Op: graph.OpMatMul, Type: quant.F32, Shape: graph.Shape{1, vocab}}
	how := &graph.Node{Op: graph.OpInput, Type: quant.I32, Shape: graph.Shape{1, graph.SamplingWords}, Attr: graph.InputAttr{Input: graph.InSampling}}
	return b.SupportsOp(&graph.Node{Op: graph.OpSample, Type: quant.I32, Shape: graph.Shape{1}, In: []*graph.Node{logits, how}, Attr: graph.SampleAttr{Vocab: vocab}}) == nil
}

// Describe names the backend, path and threads in use: "cpu avx2, 2 threads".
func (m *Model) Describe() string {
	if d, ok := m.backend.(interface{ Describe() string }); ok {
		return d.Describe()
	}
	return m.backend.Name()
}

// samplingDefaults overlays llama.cpp's defaults with the file's general.sampling.* keys.
func samplingDefaults(f *gguf.File, notice func(string)) (sample.Params, error) {
	kv := map[string]any{}
	for _, e := range f.Metadata() {
		if strings.HasPrefix(e.Key, "general.sampling.") {
			kv[e.Key] = e.Value.Any()
		}
	}
	p, notices, err := sample.FromMetadata(sample.Default(), kv)
	for _, n := range notices {
		notice(n)
	}
	return p, err
}
