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
	"strings"
)

// test is what both sides measure: pp512, tg32@2048 (at a depth), b4@32 (16 steps of one token for each of 4 sequences).
type test struct {
	kind     string
	n, depth int
}

// batchSteps of minfer-cli's batch tests, and so of the peer's.
const batchSteps = 16

// cacheType is the format of the KV cache on both sides, said to both: their defaults may change, and ours is what the environment says.
const cacheType = "f16"

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
	test       test
	tried      string // the better setting of flash attention so far
	readShares []float64
	int8Shares []float64
}

// groups of tests that one process of each side measures: those at one depth, batches apart, since another program of the peer does them.
func groups(tests []test) (g [][]int) {
	at := map[[2]int]int{}
	for i, t := range tests {
		key := [2]int{t.depth, 0}
		if t.kind == "b" {
			key[1] = 1
		}
		if _, ok := at[key]; !ok {
			at[key] = len(g)
			g = append(g, nil)
		}
		g[at[key]] = append(g[at[key]], i)
	}
	return g
}

// compare measures one file: every round all tests, in each group of them the sides one after the other, and who begins changes from round to
// round. The first round tries the peer with and without flash attention; the better setting of each test stays.
func (o *options) compare(ctx context.Context, file string) (pairs []*pair, err error) {
	for _, t := range o.tests {
		pairs = append(pairs, &pair{test: t, File: filepath.Base(file), Test: t.String(), Threads: o.threads, Commit: o.commit})
	}
	for round := range o.rounds {
		for _, g := range groups(o.tests) {
			var some []*pair
			for _, i := range g {
				some = append(some, pairs[i])
			}
			sides := []func(context.Context, string, []*pair) error{o.ours, o.theirs}
			if round%2 == 1 {
				sides[0], sides[1] = sides[1], sides[0]
			}
			for _, side := range sides {
				if err := side(ctx, file, some); err != nil {
					return nil, fmt.Errorf("%s: %w", some[0].File, err)
				}
			}
			for _, p := range some {
				fmt.Fprintf(os.Stderr, "%s %s round %d: %.1f / %.1f\n", p.File, p.Test, round+1, p.Ours[round], p.Theirs[round])
			}
		}
	}
	finish(pairs)
	return pairs, nil
}

// numbers of the tests of a kind, as a list for the command line; "0": none.
func numbers(pairs []*pair, kind string) string {
	var list []string
	for _, p := range pairs {
		if p.test.kind == kind {
			list = append(list, strconv.Itoa(p.test.n))
		}
	}
	if list == nil {
		return "0"
	}
	return strings.Join(list, ",")
}

func (o *options) ours(ctx context.Context, file string, pairs []*pair) error {
	out, err := o.output(ctx, o.minfer, "bench", "-m", file, "--backend", "cpu", "-t", strconv.Itoa(o.threads), "-p", numbers(pairs, "pp"), "-n", numbers(pairs, "tg"),
		"-b", numbers(pairs, "b"), "-d", strconv.Itoa(pairs[0].test.depth), "--cache-type-k", cacheType, "--cache-type-v", cacheType, "-r", "1", "-o", "json")
	if err != nil {
		return err
	}
	return addOurs(out, pairs)
}

// addOurs reads minfer-cli's JSON.
func addOurs(out []byte, pairs []*pair) error {
	var results []struct {
		TokS      float64 `json:"avg_ts"`
		ReadShare float64 `json:"share_of_read"`
		Int8Share float64 `json:"share_of_int8"`
		CPU       string  `json:"cpu"`
		Path      string  `json:"path"`
		Test      string  `json:"test"`
	}
	if err := json.Unmarshal(out, &results); err != nil {
		return fmt.Errorf("minfer-cli's output: %w", err)
	}
	for _, p := range pairs {
		had := len(p.Ours)
		for _, r := range results {
			if r.Test == p.Test && r.TokS > 0 {
				p.CPU, p.Path = r.CPU, r.Path
				p.Ours = append(p.Ours, r.TokS)
				p.readShares, p.int8Shares = append(p.readShares, r.ReadShare), append(p.int8Shares, r.Int8Share)
			}
		}
		if len(p.Ours) != had+1 {
			return fmt.Errorf("minfer-cli gave %d results for %s: %+v", len(p.Ours)-had, p.Test, results)
		}
	}
	return nil
}

// theirs measures each test with its setting of flash attention, or with both where that isn't decided yet.
func (o *options) theirs(ctx context.Context, file string, pairs []*pair) error {
	best := map[*pair]float64{}
	for _, fa := range o.flash {
		var some []*pair
		for _, p := range pairs {
			if p.FlashAttn == "" || p.FlashAttn == fa {
				some = append(some, p)
			}
		}
		if some == nil {
			continue
		}
		figures, err := o.peer(ctx, file, some, fa)
		if err != nil {
			return err
		}
		for i, p := range some {
			if figures[i] > best[p] {
				best[p], p.tried = figures[i], fa
			}
		}
	}
	for _, p := range pairs {
		p.Theirs, p.FlashAttn = append(p.Theirs, best[p]), p.tried
	}
	return nil
}

// peer runs llama.cpp once and gives its tokens a second in each test.
func (o *options) peer(ctx context.Context, file string, pairs []*pair, fa string) ([]float64, error) {
	threads, depth := strconv.Itoa(o.threads), pairs[0].test.depth
	if pairs[0].test.kind == "b" {
		largest := 0
		for _, p := range pairs {
			largest = max(largest, p.test.n)
		}
		out, err := o.output(ctx, filepath.Join(o.llama, "llama-batched-bench"), "-m", file, "-t", threads, "-tb", threads, "-fa", fa,
			"-c", strconv.Itoa(largest*(depth+batchSteps+1)), "-npp", strconv.Itoa(depth), "-ntg", strconv.Itoa(batchSteps), "-npl", numbers(pairs, "b"), "-ctk", cacheType, "-ctv", cacheType, "--output-format", "jsonl")
		if err != nil {
			return nil, err
		}
		return readBatched(out, pairs)
	}
	out, err := o.output(ctx, filepath.Join(o.llama, "llama-bench"), "-m", file, "-t", threads, "-p", numbers(pairs, "pp"), "-n", numbers(pairs, "tg"), "-d", strconv.Itoa(depth),
		"-ctk", cacheType, "-ctv", cacheType, "-fa", fa, "-r", "1", "-o", "json")
	if err != nil {
		return nil, err
	}
	return readBench(out, pairs)
}

// readBench reads llama-bench's JSON.
func readBench(out []byte, pairs []*pair) (figures []float64, err error) {
	var results []struct {
		TokS   float64 `json:"avg_ts"`
		Prompt int     `json:"n_prompt"`
		Gen    int     `json:"n_gen"`
		Commit string  `json:"build_commit"`
	}
	if err := json.Unmarshal(out, &results); err != nil {
		return nil, fmt.Errorf("llama-bench's output: %w", err)
	}
	for _, p := range pairs {
		want := [2]int{p.test.n, 0}
		if p.test.kind == "tg" {
			want = [2]int{0, p.test.n}
		}
		for _, r := range results {
			if [2]int{r.Prompt, r.Gen} == want && r.TokS > 0 {
				figures = append(figures, r.TokS)
				p.Peer = "llama.cpp " + r.Commit
			}
		}
	}
	if len(figures) != len(pairs) {
		return nil, fmt.Errorf("llama-bench gave %+v for %d tests", results, len(pairs))
	}
	return figures, nil
}

// readBatched reads the lines of JSON among what llama-batched-bench prints.
func readBatched(out []byte, pairs []*pair) (figures []float64, err error) {
	for _, p := range pairs {
		for line := range bytes.Lines(out) {
			var r struct {
				Sequences int     `json:"pl"`
				TokS      float64 `json:"speed_tg"`
			}
			if json.Unmarshal(line, &r) == nil && r.Sequences == p.test.n && r.TokS > 0 {
				figures = append(figures, r.TokS)
			}
		}
	}
	if len(figures) != len(pairs) {
		return nil, fmt.Errorf("llama-batched-bench printed %d lines with speed_tg for %d tests", len(figures), len(pairs))
	}
	return figures, nil
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
