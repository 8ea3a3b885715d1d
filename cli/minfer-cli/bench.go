package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/minfer-go/minfer/cli/bench"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/synthetic"
)

type benchCmd struct {
	modelFlag
	Synthetic  string `placeholder:"SHAPE:TYPE" help:"Measure random weights made in memory, as in qwen2.5-7b:q4_k_m."`
	Prompt     string `short:"p" default:"512" placeholder:"N,…" help:"Prefill tests: tokens of the prompt."`
	Gen        string `short:"n" default:"128" placeholder:"N,…" help:"Decode tests: tokens generated one by one."`
	Batches    string `short:"b" default:"0" placeholder:"N,…" help:"Batch tests: one token for each of N sequences in a step."`
	Depths     string `short:"d" name:"depths" aliases:"depth" default:"0" placeholder:"N,…" help:"Tokens already in the context."`
	Reps       int    `short:"r" default:"5" placeholder:"N" help:"Repetitions after the warm-up."`
	Threads    string `short:"t" default:"0" placeholder:"N,…" help:"CPU threads; 0: what affinity and the cgroup's quota allow."`
	CPUPath    string `name:"cpu-path" placeholder:"PATH" help:"Instruction path: avx512-vnni, avx2 or generic; default: the fastest."`
	CacheTypeK string `name:"cache-type-k" default:"f16" help:"KV cache format of K."`
	CacheTypeV string `name:"cache-type-v" default:"f16" help:"KV cache format of V."`
	Output     string `short:"o" enum:"md,csv,json,jsonl" default:"md" help:"md, csv, json or jsonl."`
}

// Help shows examples.
func (benchCmd) Help() string {
	return "Examples:\n  minfer-cli bench -m model.gguf -p 512 -n 128 -t 1,2\n  minfer-cli bench --synthetic qwen2.5-0.5b:q8_0 --depths 0,2048 -o jsonl\n\n" +
		"Shapes: " + strings.Join(synthetic.Names(), ", ") + "\nTypes: " + strings.Join(synthetic.Types(), ", ")
}

// Run measures and prints.
func (c *benchCmd) Run(a *app) error {
	var lists [5][]int
	for i, s := range []struct{ flag, text string }{{"-p", c.Prompt}, {"-n", c.Gen}, {"-b", c.Batches}, {"--depths", c.Depths}, {"-t", c.Threads}} {
		var err error
		if lists[i], err = numbers(s.flag, s.text); err != nil {
			return err
		}
	}
	key, value, err := engineFlags{CacheTypeK: c.CacheTypeK, CacheTypeV: c.CacheTypeV}.formats()
	if err != nil {
		return err
	}
	var made []byte
	if c.Synthetic != "" {
		if c.Model != "" {
			return usage("--synthetic and -m together: give one of them")
		}
		if made, err = synthetic.Make(c.Synthetic); err != nil {
			return usageError{err}
		}
	}
	var results []bench.Result
	for _, threads := range lists[4] {
		m, err := c.load(a, made, threads)
		if err != nil {
			return err
		}
		o := bench.Options{Prompts: lists[0], Gens: lists[1], Batches: lists[2], Depths: lists[3], Reps: c.Reps, KeyType: key, ValueType: value}
		if f := a.stderr; isTerminal(f) {
			o.OnProgress = func(done, total int) {
				fmt.Fprintf(f, "\r%d of %d", done, total)
				if done == total {
					fmt.Fprint(f, "\r\x1b[K")
				}
			}
		}
		r, err := bench.Run(a.ctx, m, threads, o)
		if cerr := m.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
		results = append(results, r...)
	}
	return print(a.stdout, c.Output, results)
}

func (c *benchCmd) load(a *app, made []byte, threads int) (*engine.Model, error) {
	if made != nil {
		return engine.LoadBytes(c.Synthetic, made, engine.LoadOptions{Threads: threads, CPUPath: c.CPUPath})
	}
	return engineFlags{modelFlag: c.modelFlag, Threads: threads, CPUPath: c.CPUPath}.load(a, "")
}

// numbers reads a list of non-negative integers.
func numbers(flag, text string) ([]int, error) {
	var out []int
	for _, s := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 0 || n > 1<<20 {
			return nil, usage("%s %q: want numbers from 0 to %d, separated by commas", flag, text, 1<<20)
		}
		out = append(out, n)
	}
	return out, nil
}

var benchHeader = []string{"model", "test", "backend", "KV", "tok/s", "spread %", "GB/s", "GMAC/s", "output checked"}

func benchRow(r bench.Result) []string {
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }
	return []string{r.Model, r.Test, r.Backend, r.KV, f(r.TokS), f(100 * r.Spread), f(r.GBs), f(r.GMACs), strconv.FormatBool(r.Checked)}
}

func print(w io.Writer, format string, results []bench.Result) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	case "jsonl":
		enc := json.NewEncoder(w)
		for _, r := range results {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		c := csv.NewWriter(w)
		_ = c.Write(benchHeader)
		for _, r := range results {
			_ = c.Write(benchRow(r))
		}
		c.Flush()
		return c.Error()
	}
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| "+strings.Join(benchHeader, "\t| ")+"\t|")
	fmt.Fprintln(t, "|"+strings.Repeat(" ---\t|", len(benchHeader)))
	for _, r := range results {
		fmt.Fprintln(t, "| "+strings.Join(benchRow(r), "\t| ")+"\t|")
	}
	return t.Flush()
}
