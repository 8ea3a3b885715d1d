package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/cli/bench"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/synthetic"
)

type benchCmd struct {
	modelFlag
	Synthetic  string `placeholder:"SHAPE:TYPE" help:"Measure random weights made in memory, as in qwen2.5-7b:q4_k_m."`
	Prompt     string `short:"p" default:"512" placeholder:"N,…" help:"Prefill tests (pp): tokens of the prompt; 0: none."`
	Gen        string `short:"n" default:"128" placeholder:"N,…" help:"Decode tests (tg): tokens generated one by one; 0: none."`
	Batches    string `short:"b" default:"0" placeholder:"N,…" help:"Batch tests (b): 16 steps of one token for each of N sequences; 0: none."`
	Depths     string `short:"d" name:"depths" aliases:"depth" default:"0" placeholder:"N,…" help:"Tokens already in the context."`
	Reps       int    `short:"r" default:"5" placeholder:"N" help:"Repetitions after the warm-up."`
	Threads    string `short:"t" default:"0" placeholder:"N,…" help:"CPU threads; 0: what affinity and the cgroup's quota allow."`
	Backend    string `enum:",auto,cpu,cuda" default:"" placeholder:"NAME" help:"auto, cpu or cuda; auto takes the GPU if it can run the whole model."`
	CPUPath    string `name:"cpu-path" placeholder:"PATH" help:"Instruction path: avx512-vnni, avx2 or generic; default: the fastest."`
	CacheTypeK string `name:"cache-type-k" placeholder:"TYPE" help:"KV cache format of K: f32, f16 (default) or q8_0."`
	CacheTypeV string `name:"cache-type-v" placeholder:"TYPE" help:"KV cache format of V: f32, f16 (default) or q8_0."`
	Profile    bool   `help:"Time every kind of work, or kernel on a GPU, and print a table a test on standard error; tests take up to 2 % more time."`
	Output     string `short:"o" enum:"md,csv,json,jsonl" default:"md" help:"md, csv, json or jsonl."`
	Plot       string `placeholder:"FILE.svg" help:"Draw tokens a second by depth; give several --depths."`
}

// Help shows examples.
func (benchCmd) Help() string {
	return `Examples:
  minfer-cli bench -m model.gguf -p 512 -n 128 -t 1,2
  minfer-cli bench --synthetic qwen2.5-0.5b:q8_0 -b 4,8 -o jsonl
  minfer-cli bench -m model.gguf --depths 0,1024,4096 --plot speed.svg

Every test runs once to warm up, then -r times; all tests of a depth take turns. The warm-up's logits must be finite and have the same best
token as reference steps that take another route, and so must those of every repetition. GB/s counts the weights and KV rows that a test has to
read, GMAC/s the products of its matrices; both are also shown as shares of what this machine reads and multiplies at best with as many threads,
measured before and after each repetition; on a GPU the limit is what its memory copies, reads and writes counted.

Shapes: ` + strings.Join(synthetic.Names(), ", ") + "\nTypes: " + strings.Join(synthetic.Types(), ", ")
}

// Run measures and prints.
func (c *benchCmd) Run(a *app) (err error) {
	o, threads, err := c.options(a)
	if err != nil {
		return err
	}
	made, err := c.synthetic()
	if err != nil {
		return err
	}
	var models []*engine.Model
	var chosen []*chooser
	defer func() {
		for _, m := range models {
			if cerr := m.Close(); err == nil {
				err = cerr
			}
		}
	}()
	for _, t := range threads {
		m, by, err := c.load(a, made, t, o.Cells())
		if err != nil {
			return err
		}
		models, chosen = append(models, m), append(chosen, by)
		if n := bench.Threads(m); slices.ContainsFunc(models[:len(models)-1], func(other *engine.Model) bool { return bench.Threads(other) == n }) {
			if n == 0 {
				return usage("-t %q: a GPU's speed is not measured by CPU threads: give one number at most", c.Threads)
			}
			return usage("-t %q: %d threads are measured twice: 0 stands for as many as there are CPUs to use", c.Threads, n)
		}
	}
	for _, m := range models {
		if err := o.Validate(m); err != nil {
			return usageError{err}
		}
	}
	plot, err := createPlot(c.Plot)
	if err != nil {
		return err
	}
	defer plot.discard()
	o.OnProgress = c.progress(a, chosen)
	results, err := bench.Run(a.ctx, models, o)
	if err == nil {
		err = bench.Write(a.stdout, c.Output, results)
	}
	if err == nil {
		err = bench.WriteProfiles(a.stderr, results)
	}
	for _, by := range chosen {
		by.memory.print(a.stderr)
	}
	if err == nil && plot != nil {
		err = plot.draw(results)
	}
	return err
}

func (c *benchCmd) options(a *app) (o bench.Options, threads []int, err error) {
	o.Reps = c.Reps
	for _, l := range []struct {
		flag, text string
		to         *[]int
	}{{"-p", c.Prompt, &o.Prompts}, {"-n", c.Gen, &o.Gens}, {"-b", c.Batches, &o.Batches}, {"--depths", c.Depths, &o.Depths}, {"-t", c.Threads, &threads}} {
		if *l.to, err = numbers(l.flag, l.text); err != nil {
			return o, nil, err
		}
	}
	if o.KeyType, o.ValueType, err = c.engine(0).formats(); err != nil {
		return o, nil, err
	}
	if c.Plot != "" && len(o.Depths) < 2 {
		return o, nil, usage("--plot draws speed by depth: give two or more --depths, as in 0,1024,4096")
	}
	if c.Synthetic != "" && c.Model != "" {
		return o, nil, usage("--synthetic and -m together: give one of them")
	}
	return o, threads, nil
}

// progress is called after every repetition: it looks at the GPUs' memory, and counts on a terminal.
func (c *benchCmd) progress(a *app, chosen []*chooser) func(done, total int) {
	f, shown := a.stderr, isTerminal(a.stderr)
	return func(done, total int) {
		for _, by := range chosen {
			_ = by.memory.look() // a device that fails ends the next repetition with its error
		}
		if !shown {
			return
		}
		fmt.Fprintf(f, "\r%d of %d", done, total)
		if done == total {
			fmt.Fprint(f, "\r\x1b[K")
		}
	}
}

// engine is how the model is loaded with a number of threads.
func (c *benchCmd) engine(threads int) engineFlags {
	return engineFlags{modelFlag: c.modelFlag, Threads: threads, Backend: c.Backend, CPUPath: c.CPUPath, CacheTypeK: c.CacheTypeK, CacheTypeV: c.CacheTypeV,
		Profile: c.Profile}
}

// synthetic makes the weights, if they are wanted.
func (c *benchCmd) synthetic() ([]byte, error) {
	if c.Synthetic == "" {
		return nil, nil
	}
	size, err := synthetic.Size(c.Synthetic)
	if err != nil {
		return nil, usageError{err}
	}
	if free, ok := backendcpu.AvailableMemory(); ok && size > free {
		return nil, fmt.Errorf("--synthetic %s: its weights take %d MiB, the system has %d MiB available", c.Synthetic, size>>20, free>>20)
	}
	return synthetic.Make(c.Synthetic)
}

// load opens the model with a number of threads, for contexts of so many cells.
func (c *benchCmd) load(a *app, made []byte, threads, cells int) (*engine.Model, *chooser, error) {
	f := c.engine(threads)
	if made == nil {
		return f.loadFor(a, "", cells)
	}
	choose, err := f.chooser(a, cells)
	if err != nil {
		return nil, nil, err
	}
	m, err := engine.LoadBytes(c.Synthetic, made, engine.LoadOptions{Notice: a.notice, Backend: choose.open})
	return m, choose, err
}

// maxNumber bounds the numbers of bench's lists.
const maxNumber = 1 << 20

// numbers reads a list of different non-negative integers.
func numbers(flag, text string) (out []int, err error) {
	for _, s := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 0 || n > maxNumber {
			return nil, usage("%s %q: want numbers from 0 to %d, separated by commas", flag, text, maxNumber)
		}
		if slices.Contains(out, n) {
			return nil, usage("%s %q: %d stands there twice", flag, text, n)
		}
		out = append(out, n)
	}
	return out, nil
}
