// Command peers measures minfer-cli and llama.cpp on the same files, taking turns, and prints ratios of medians. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// options of a comparison.
type options struct {
	llama   string // folder with llama-bench and llama-batched-bench
	minfer  string
	work    string
	rounds  int
	threads int
	tests   []test
	wrap    []string // command that every measured process is started with
	flash   []string // settings of the peer's flash attention to try
	lines   string   // file that JSON lines are appended to
	commit  string
	files   []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.llama == "" {
		if o.llama, err = buildLlama(ctx, o.work); err != nil {
			return err
		}
	}
	if o.minfer == "" {
		if o.minfer, err = buildMinfer(ctx, o.work); err != nil {
			return err
		}
	}
	o.commit = commit(ctx)
	all, err := o.compareAll(ctx)
	return errors.Join(err, writeTable(os.Stdout, all))
}

// compareAll measures the files one after the other. With an error come the pairs of those before it: they took long to measure.
func (o *options) compareAll(ctx context.Context) (all []*pair, err error) {
	for _, f := range o.files {
		pairs, err := o.compare(ctx, f)
		if err != nil {
			return all, err
		}
		all = append(all, pairs...)
		if err := o.appendLines(pairs); err != nil {
			return all, err
		}
	}
	return all, nil
}

func parse(args []string) (o options, err error) {
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: GOWORK=off go run . [flags] FILE.gguf...")
		fs.PrintDefaults()
	}
	cache, _ := os.UserCacheDir()
	fs.StringVar(&o.llama, "llama", "", "`folder` with ready llama-bench and llama-batched-bench; default: build them")
	fs.StringVar(&o.minfer, "minfer", "", "ready minfer-cli `program`; default: build it from this tree")
	fs.StringVar(&o.work, "work", filepath.Join(cache, "minfer-peers"), "`folder` to download and build in")
	fs.IntVar(&o.rounds, "rounds", 5, "times that each side measures each test")
	fs.IntVar(&o.threads, "threads", 2, "threads of both sides")
	tests := fs.String("tests", "pp512,tg128,tg32@2048,b4@32,b8@32", "`list` of tests, as KINDn or KINDn@DEPTH: pp, tg, b")
	wrap := fs.String("wrap", "", "`command` before every measured process, such as \"taskset -c 0,1\"")
	flash := fs.String("fa", "on,off", "the peer's flash attention: `settings` to try, on and off")
	fs.StringVar(&o.lines, "lines", "", "`file` to append JSON lines to")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	o.files, o.wrap = fs.Args(), strings.Fields(*wrap)
	if len(o.files) == 0 {
		return o, fmt.Errorf("no files: give one or more GGUF files")
	}
	if o.rounds < 1 || o.threads < 1 {
		return o, fmt.Errorf("%d rounds with %d threads: want 1 or more", o.rounds, o.threads)
	}
	for _, f := range o.files {
		if _, err := os.Stat(f); err != nil {
			return o, err
		}
	}
	o.flash = strings.Split(*flash, ",")
	for _, fa := range o.flash {
		if fa != "on" && fa != "off" {
			return o, fmt.Errorf("-fa %s: want on, off or on,off", *flash)
		}
	}
	for _, s := range strings.Split(*tests, ",") {
		t, err := parseTest(s)
		if err != nil {
			return o, err
		}
		o.tests = append(o.tests, t)
	}
	return o, nil
}
