package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// test is what both sides measure: pp512, tg32@2048 (at a depth), b4@32 (16 steps of one token for each of 4 sequences).
type test struct {
	kind     string
	n, depth int
}

// batchSteps of minfer-cli's batch tests, and so of the peer's.
const batchSteps = 16

var testForm = regexp.MustCompile(`^(pp|tg|b)([1-9][0-9]*)(?:@([0-9]+))?$`)

func parseTest(s string) (t test, err error) {
	m := testForm.FindStringSubmatch(s)
	if m == nil {
		return t, fmt.Errorf("test %q: want pp, tg or b and a number, and perhaps @DEPTH, as in tg32@2048", s)
	}
	t.kind = m[1]
	if t.n, err = strconv.Atoi(m[2]); err == nil && m[3] != "" {
		t.depth, err = strconv.Atoi(m[3])
	}
	if err == nil && t.kind == "b" && t.depth == 0 {
		err = fmt.Errorf("test %q: llama-batched-bench has no batches at depth 0: give a depth, as in b4@32", s)
	}
	return t, err
}

func (t test) String() string {
	if t.depth > 0 {
		return fmt.Sprintf("%s%d @ d%d", t.kind, t.n, t.depth)
	}
	return fmt.Sprintf("%s%d", t.kind, t.n)
}

// pair is what both sides measured in one test, in tokens a second, by round.
type pair struct {
	Date       string    `json:"date"`
	File       string    `json:"file"`
	Test       string    `json:"test"`
	Ours       []float64 `json:"ours"`
	Theirs     []float64 `json:"theirs"`
	Ratio      float64   `json:"ratio"` // of the medians
	ReadShare  float64   `json:"share_of_read"`
	Int8Share  float64   `json:"share_of_int8"`
	CPU        string    `json:"cpu"`
	Path       string    `json:"path"`
	Threads    int       `json:"threads"`
	Commit     string    `json:"commit"`
	Peer       string    `json:"peer"`
	FlashAttn  string    `json:"peer_flash_attn"`
	readShares []float64
	int8Shares []float64
}

// compare measures one file: every round all tests, in each the sides one after the other, and who begins changes from round to round. The
// first round tries the peer with and without flash attention; the better setting of each test stays.
func (o *options) compare(ctx context.Context, file string) (pairs []*pair, err error) {
	for _, t := range o.tests {
		pairs = append(pairs, &pair{File: filepath.Base(file), Test: t.String(), Threads: o.threads, Commit: o.commit})
	}
	for round := range o.rounds {
		for i, t := range o.tests {
			p := pairs[i]
			sides := []func() error{func() error { return o.ours(ctx, p, file, t) }, func() error { return o.theirs(ctx, p, file, t) }}
			if round%2 == 1 {
				sides[0], sides[1] = sides[1], sides[0]
			}
			for _, side := range sides {
				if err := side(); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", p.File, t, err)
				}
			}
			fmt.Fprintf(os.Stderr, "%s %s round %d: %.1f / %.1f\n", p.File, t, round+1, p.Ours[round], p.Theirs[round])
		}
	}
	finish(pairs)
	return pairs, nil
}

func (o *options) ours(ctx context.Context, p *pair, file string, t test) error {
	n := map[string]string{"pp": "0", "tg": "0", "b": "0"}
	n[t.kind] = strconv.Itoa(t.n)
	out, err := o.output(ctx, o.minfer, "bench", "-m", file, "--backend", "cpu", "-t", strconv.Itoa(o.threads), "-p", n["pp"], "-n", n["tg"], "-b", n["b"],
		"-d", strconv.Itoa(t.depth), "-r", "1", "-o", "json")
	if err != nil {
		return err
	}
	return p.addOurs(out)
}

// addOurs reads minfer-cli's JSON.
func (p *pair) addOurs(out []byte) error {
	var r []struct {
		TokS      float64 `json:"avg_ts"`
		ReadShare float64 `json:"share_of_read"`
		Int8Share float64 `json:"share_of_int8"`
		CPU       string  `json:"cpu"`
		Path      string  `json:"path"`
		Test      string  `json:"test"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("minfer-cli's output: %w", err)
	}
	if len(r) != 1 || r[0].Test != p.Test || r[0].TokS <= 0 {
		return fmt.Errorf("minfer-cli gave %+v where %s was asked for", r, p.Test)
	}
	p.CPU, p.Path = r[0].CPU, r[0].Path
	p.Ours = append(p.Ours, r[0].TokS)
	p.readShares, p.int8Shares = append(p.readShares, r[0].ReadShare), append(p.int8Shares, r[0].Int8Share)
	return nil
}

func (o *options) theirs(ctx context.Context, p *pair, file string, t test) error {
	if p.FlashAttn != "" {
		tokS, err := o.peer(ctx, p, file, t, p.FlashAttn)
		p.Theirs = append(p.Theirs, tokS)
		return err
	}
	best := 0.0
	for _, fa := range []string{"on", "off"} {
		tokS, err := o.peer(ctx, p, file, t, fa)
		if err != nil {
			return err
		}
		if tokS > best {
			best, p.FlashAttn = tokS, fa
		}
	}
	p.Theirs = append(p.Theirs, best)
	return nil
}

// peer runs llama.cpp once and gives its tokens a second.
func (o *options) peer(ctx context.Context, p *pair, file string, t test, fa string) (float64, error) {
	threads := strconv.Itoa(o.threads)
	if t.kind == "b" {
		cells := strconv.Itoa(t.n * (t.depth + batchSteps + 1))
		out, err := o.output(ctx, filepath.Join(o.llama, "llama-batched-bench"), "-m", file, "-t", threads, "-tb", threads, "-c", cells, "-fa", fa,
			"-npp", strconv.Itoa(t.depth), "-ntg", strconv.Itoa(batchSteps), "-npl", strconv.Itoa(t.n), "--output-format", "jsonl")
		if err != nil {
			return 0, err
		}
		return readBatched(out)
	}
	n := map[string]string{"pp": "0", "tg": "0"}
	n[t.kind] = strconv.Itoa(t.n)
	out, err := o.output(ctx, filepath.Join(o.llama, "llama-bench"), "-m", file, "-t", threads, "-p", n["pp"], "-n", n["tg"], "-d", strconv.Itoa(t.depth), "-fa", fa, "-r", "1", "-o", "json")
	if err != nil {
		return 0, err
	}
	tokS, version, err := readBench(out)
	p.Peer = "llama.cpp " + version
	return tokS, err
}

// readBench reads llama-bench's JSON.
func readBench(out []byte) (tokS float64, version string, err error) {
	var r []struct {
		TokS   float64 `json:"avg_ts"`
		Commit string  `json:"build_commit"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, "", fmt.Errorf("llama-bench's output: %w", err)
	}
	if len(r) != 1 || r[0].TokS <= 0 {
		return 0, "", fmt.Errorf("llama-bench gave %d results, the first %+v", len(r), r)
	}
	return r[0].TokS, r[0].Commit, nil
}

// readBatched reads the one line of JSON among what llama-batched-bench prints.
func readBatched(out []byte) (float64, error) {
	for line := range bytes.Lines(out) {
		var r struct {
			TokS float64 `json:"speed_tg"`
		}
		if json.Unmarshal(line, &r) == nil && r.TokS > 0 {
			return r.TokS, nil
		}
	}
	return 0, fmt.Errorf("llama-batched-bench printed no line with speed_tg")
}

func (o *options) output(ctx context.Context, args ...string) ([]byte, error) {
	args = append(append([]string{}, o.wrap...), args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tail := stderr.Bytes()
		return nil, fmt.Errorf("%v: %w\n%s", args, err, tail[max(0, len(tail)-2000):])
	}
	return out, nil
}
