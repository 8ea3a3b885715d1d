package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/kvformat"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

type inspectCmd struct {
	modelFlag
	Path       string `arg:"" optional:"" help:"GGUF file; the same as -m."`
	Ctx        int    `short:"c" placeholder:"N" help:"Context size for the memory estimates; default: the smaller of the model's and 4096."`
	CacheTypeK string `name:"cache-type-k" default:"f16" help:"KV cache format of K for the estimate."`
	CacheTypeV string `name:"cache-type-v" default:"f16" help:"KV cache format of V for the estimate."`
	JSON       bool   `name:"json" help:"Print JSON."`
}

// Help shows examples.
func (inspectCmd) Help() string {
	return "Examples:\n  minfer-cli inspect model.gguf\n  minfer-cli inspect --json model.gguf | jq .tensors[0]"
}

type inspectTensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"` // the file's order: columns first
	Bytes int64  `json:"bytes"`
}

type inspection struct {
	File      string                 `json:"file"`
	Paths     []string               `json:"paths,omitempty"` // shards
	Version   int                    `json:"version"`
	Alignment int                    `json:"alignment"`
	Bytes     int64                  `json:"bytes"`
	Metadata  []metaEntry            `json:"metadata"`
	Tensors   []inspectTensor        `json:"tensors"`
	Weights   int64                  `json:"tensor_bytes"`
	Elements  int64                  `json:"elements"`
	Memory    *engine.MemoryEstimate `json:"memory,omitempty"`
	CUDA      *deviceMemory          `json:"cuda,omitempty"`
	NoCUDA    string                 `json:"no_cuda,omitempty"` // why no GPU runs it
	Refused   string                 `json:"refused,omitempty"` // why minfer can't run it
}

type metaEntry struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Value any    `json:"value"`           // the first values of long arrays
	Count int    `json:"count,omitempty"` // of an array
}

// maxShown is how many items of an array are shown.
const maxShown = 8

// Run shows the file.
func (c *inspectCmd) Run(a *app) error {
	if c.Path != "" {
		if c.Model != "" {
			return usage("a FILE and -m together: give one of them")
		}
		c.Model = c.Path
	}
	f, path, err := c.file()
	if err != nil {
		return err
	}
	defer f.Close()
	in := inspection{File: path, Version: f.Version(), Alignment: f.Alignment(), Bytes: f.Size()}
	if p := f.Paths(); len(p) > 1 {
		in.Paths = p
	}
	for _, e := range f.Metadata() {
		in.Metadata = append(in.Metadata, metadataEntry(e))
	}
	for _, t := range f.Tensors() {
		in.Tensors = append(in.Tensors, inspectTensor{t.Name, t.Type.String(), t.Shape, t.Size})
		in.Weights += t.Size
		in.Elements += int64(t.Elems())
	}
	if err := c.estimate(a, f, &in); err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(in)
	}
	return in.print(a.stdout)
}

func metadataEntry(e gguf.KV) metaEntry {
	m := metaEntry{Key: e.Key, Type: e.Value.Kind().String()}
	if e.Value.Kind() != gguf.Array {
		m.Value = finite(e.Value.Any())
		return m
	}
	m.Type, m.Count = e.Value.Elem().String()+"[]", e.Value.Len()
	head := e.Value.Head(maxShown)
	for i := range head {
		head[i] = finite(head[i])
	}
	m.Value = head
	return m
}

// finite turns what JSON has no number for into its name.
func finite(x any) any {
	var f float64
	switch x := x.(type) {
	case float32:
		f = float64(x)
	case float64:
		f = x
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f)
	}
	return x
}

// estimate adds what running the model would take, or why it can't be run.
func (c *inspectCmd) estimate(a *app, f *gguf.File, in *inspection) error {
	key, err := kvformat.ParseFormat(c.CacheTypeK)
	if err != nil {
		return usage("--cache-type-k: %w", err)
	}
	value, err := kvformat.ParseFormat(c.CacheTypeV)
	if err != nil {
		return usage("--cache-type-v: %w", err)
	}
	net, err := modelsqwen.New(f)
	if err != nil {
		in.Refused = err.Error()
		return nil
	}
	e, err := engine.EstimateMemory(net, engine.ContextOptions{Ctx: c.Ctx, KeyType: key, ValueType: value})
	if err != nil {
		return err
	}
	in.Memory = &e
	o, err := cudaOptions(a.cuda, a.notice)
	if err != nil {
		return err
	}
	if d, err := onDevice(o, net, e); err != nil {
		in.NoCUDA = err.Error()
	} else {
		in.CUDA = &d
	}
	return nil
}

func (in inspection) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: GGUF version %d, %s, alignment %d\n", in.File, in.Version, size(in.Bytes), in.Alignment)
	for _, p := range in.Paths {
		fmt.Fprintf(w, "  %s\n", p)
	}
	fmt.Fprintf(w, "\nmetadata (%d)\n", len(in.Metadata))
	for _, m := range in.Metadata {
		value := fmt.Sprint(m.Value)
		if strings.HasPrefix(m.Type, gguf.String.String()) {
			value = fmt.Sprintf("%q", m.Value) // a string's or an array's, each quoted
		}
		if r := []rune(value); len(r) > 100 {
			value = string(r[:100]) + "…"
		}
		if m.Count > maxShown {
			value += fmt.Sprintf(" (%d in all)", m.Count)
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", m.Key, m.Type, value)
	}
	fmt.Fprintf(w, "\ntensors (%d)\n", len(in.Tensors))
	byType := map[string]int64{}
	var order []string
	for _, t := range in.Tensors {
		fmt.Fprintf(w, "  %s\t%s\t%v\t%s\n", t.Name, t.Type, t.Shape, size(t.Bytes))
		if _, ok := byType[t.Type]; !ok {
			order = append(order, t.Type)
		}
		byType[t.Type] += t.Bytes
	}
	fmt.Fprintf(w, "\ntotal\t%s, %.1f M weights", size(in.Weights), float64(in.Elements)/1e6)
	for _, t := range order {
		fmt.Fprintf(w, "; %s %s", t, size(byType[t]))
	}
	fmt.Fprintln(w)
	switch {
	case in.Memory != nil:
		m := in.Memory
		fmt.Fprintf(w, "memory to run\t%s: weights %s, KV cache %s, activations about %s\n", size(m.Total()), size(m.Weights), size(m.KV), size(m.Compute))
	default:
		fmt.Fprintf(w, "can't be run\t%s\n", in.Refused)
	}
	switch d := in.CUDA; {
	case d != nil:
		fmt.Fprintf(w, "memory on a GPU\t%s: weights %s (%s of padding), KV cache %s, activations about %s, kernels and scratch about %s\n",
			size(d.Total), size(d.Weights.Bytes), size(d.Weights.Bytes-d.Weights.File), size(d.KV), size(d.Compute), size(d.Overhead))
		for _, p := range d.Weights.Planes {
			fmt.Fprintf(w, "  %s, layout %s\t%s for %s of the file, %d tensors\n", p.Type, p.Layout, size(p.Bytes), size(p.File), p.Tensors)
		}
	case in.NoCUDA != "":
		fmt.Fprintf(w, "not on a GPU\t%s\n", in.NoCUDA)
	}
	return w.Flush()
}

// size in units of 1000.
func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}
