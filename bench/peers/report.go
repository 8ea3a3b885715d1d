package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// finish computes what is made of all rounds.
func finish(pairs []*pair) {
	peer := ""
	for _, p := range pairs {
		peer = max(peer, p.Peer) // llama-batched-bench doesn't say its version: it is built with llama-bench
	}
	for _, p := range pairs {
		p.Date, p.Peer = time.Now().UTC().Format(time.DateOnly), peer
		p.Ratio = median(p.Ours) / median(p.Theirs)
		p.ReadShare, p.Int8Share = median(p.readShares), median(p.int8Shares)
	}
}

// median of numbers; of an even count the mean of the middle ones.
func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// limit names the limit that our side came nearest to.
func (p *pair) limit() string {
	if p.Int8Share > p.ReadShare {
		return fmt.Sprintf("%.0f %% of int8", 100*p.Int8Share)
	}
	return fmt.Sprintf("%.0f %% of read", 100*p.ReadShare)
}

func (o *options) appendLines(pairs []*pair) (err error) {
	if o.lines == "" {
		return nil
	}
	f, err := os.OpenFile(o.lines, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	enc := json.NewEncoder(f)
	for _, p := range pairs {
		if err := enc.Encode(p); err != nil {
			return err
		}
	}
	return nil
}

func writeTable(w io.Writer, pairs []*pair) error {
	if len(pairs) == 0 {
		return nil
	}
	first := pairs[0]
	peer := first.Peer
	if peer == "" {
		peer = "llama.cpp"
	}
	fmt.Fprintf(w, "%s, %s, %d threads, commit %s; medians of %d rounds, tokens a second.\n\n", first.CPU, first.Path, first.Threads, first.Commit, len(first.Ours))
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(t, "| file\t| test\t| ours\t| "+peer+"\t| ratio\t| share of limit\t|")
	fmt.Fprintln(t, "|"+strings.Repeat(" ---\t|", 6))
	for _, p := range pairs {
		fmt.Fprintf(t, "| %s\t| %s\t| %.1f\t| %.1f\t| %.2f\t| %s\t|\n", strings.TrimSuffix(p.File, ".gguf"), p.Test, median(p.Ours), median(p.Theirs), p.Ratio, p.limit())
	}
	return t.Flush()
}
