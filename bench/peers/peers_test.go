package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseTest(t *testing.T) {
	for s, want := range map[string]test{"pp512": {"pp", 512, 0}, "tg32@2048": {"tg", 32, 2048}, "b4@32": {"b", 4, 32}} {
		got, err := parseTest(s)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "pp", "pp0", "xx1", "tg-1", "b4", "b4@0", "pp512@", "tg99999999999999999999"} {
		if got, err := parseTest(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
	if s := (test{"tg", 32, 2048}).String(); s != "tg32 @ d2048" {
		t.Error(s)
	}
}

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-wrap", "nice -n 5", "-tests", "tg8", "-rounds", "3", file})
	if err != nil || len(o.wrap) != 3 || len(o.tests) != 1 || o.rounds != 3 || o.threads != 2 || o.files[0] != file {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{}, {"-rounds", "0", file}, {"-threads", "0", file}, {"-tests", "x", file}, {"-fa", "auto", file}, {file + "x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q", args)
		}
	}
}

func TestGroups(t *testing.T) {
	got := groups([]test{{"pp", 512, 0}, {"b", 4, 32}, {"tg", 32, 2048}, {"tg", 128, 0}, {"b", 8, 32}, {"tg", 8, 32}})
	want := [][]int{{0, 3}, {1, 4}, {2}, {5}}
	if !reflect.DeepEqual(got, want) {
		t.Error(got)
	}
}

func made(tests ...test) (pairs []*pair) {
	for _, t := range tests {
		pairs = append(pairs, &pair{test: t, Test: t.String()})
	}
	return pairs
}

func TestReadOutputs(t *testing.T) {
	bench, batches := made(test{"tg", 8, 0}, test{"pp", 64, 0}), made(test{"b", 8, 32}, test{"b", 4, 32})
	got, err := readBench([]byte(`[{"build_commit": "0c1e570", "n_prompt": 64, "n_gen": 0, "avg_ts": 340.5}, {"build_commit": "0c1e570", "n_prompt": 0, "n_gen": 8, "avg_ts": 34.5}]`), bench)
	if err != nil || !reflect.DeepEqual(got, []float64{34.5, 340.5}) || bench[0].Peer != "llama.cpp 0c1e570" {
		t.Error(got, err)
	}
	got, err = readBatched([]byte("\nmain: n_kv_max = 2048\n{\"pl\": 4, \"speed_tg\": 61.65}\n{\"pl\": 8, \"speed_tg\": 80}\n"), batches)
	if err != nil || !reflect.DeepEqual(got, []float64{80, 61.65}) {
		t.Error(got, err)
	}
	line := `[{"test":"b4 @ d32","avg_ts":90,"share_of_read":0.5,"share_of_int8":0.25,"cpu":"X","path":"avx2"},{"test":"b8 @ d32","avg_ts":130}]`
	if err := addOurs([]byte(line), batches); err != nil || batches[0].Ours[0] != 130 || batches[1].Ours[0] != 90 || batches[1].CPU != "X" {
		t.Errorf("%+v, %v", batches[1], err)
	}
	if err := addOurs([]byte(`[{"test":"b2 @ d32","avg_ts":90}]`), batches); err == nil {
		t.Error("another test's figures were taken")
	}
	for _, bad := range []string{"", "[]", `[{"avg_ts":0}]`, "nonsense"} {
		if _, err := readBench([]byte(bad), bench); err == nil {
			t.Errorf("llama-bench: %q", bad)
		}
		if _, err := readBatched([]byte(bad), batches); err == nil {
			t.Errorf("llama-batched-bench: %q", bad)
		}
	}
}

func TestReport(t *testing.T) {
	pairs := []*pair{
		{File: "a.gguf", Test: "pp512", Ours: []float64{10, 30, 20}, Theirs: []float64{5, 4, 100}, readShares: []float64{0.1}, int8Shares: []float64{0.5, 0.7}, CPU: "X", Path: "avx2",
			Threads: 2, Commit: "abc", Peer: "llama.cpp 0c1e570"},
		{File: "a.gguf", Test: "b4 @ d32", Ours: []float64{8, 10, 9}, Theirs: []float64{3}, readShares: []float64{0.9}, int8Shares: []float64{0.1}},
	}
	finish(pairs)
	if pairs[0].Ratio != 4 || pairs[1].Ratio != 3 || pairs[0].Int8Share != 0.6 || pairs[1].Peer != "llama.cpp 0c1e570" {
		t.Errorf("%+v %+v", pairs[0], pairs[1])
	}
	var b bytes.Buffer
	if err := writeTable(&b, pairs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"X, avx2, 2 threads, commit abc; medians of 3 rounds", "| a    | pp512    | 20.0 | 5.0               | 4.00  | 60 % of int8   |", "| 90 % of read   |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	o := options{lines: filepath.Join(t.TempDir(), "l.jsonl")}
	for range 2 {
		if err := o.appendLines(pairs); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(o.lines)
	if err != nil || bytes.Count(data, []byte("\n")) != 4 {
		t.Fatalf("%s, %v", data, err)
	}
	var back pair
	if err := json.Unmarshal(bytes.SplitN(data, []byte("\n"), 2)[0], &back); err != nil || back.Ratio != 4 || len(back.Ours) != 3 {
		t.Errorf("%+v, %v", back, err)
	}
}

// A whole comparison, with shell scripts in place of the programs.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script("llama-bench", `case "$*" in *"-fa off"*) v=9;; *) v=5;; esac; echo "[{\"build_commit\":\"c\",\"n_prompt\":64,\"avg_ts\":$v},{\"n_gen\":8,\"avg_ts\":$((13 - v))}]"`)
	script("llama-batched-bench", `case "$*" in *"-fa off"*) v=3;; *) v=4;; esac; echo "{\"pl\":4,\"speed_tg\":$v}"`)
	ours := script("minfer-cli", `echo '[{"test":"pp64","avg_ts":18},{"test":"tg8","avg_ts":16},{"test":"b4 @ d32","avg_ts":18}]'`)
	o := options{llama: dir, minfer: ours, rounds: 3, threads: 2, tests: []test{{"pp", 64, 0}, {"b", 4, 32}, {"tg", 8, 0}}, wrap: []string{"env"}, flash: []string{"on", "off"}}
	pairs, err := o.compare(t.Context(), "x.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if pairs[0].Ratio != 2 || pairs[0].FlashAttn != "off" || pairs[1].Ratio != 4.5 || pairs[1].FlashAttn != "on" || pairs[2].Ratio != 2 || pairs[2].FlashAttn != "on" ||
		len(pairs[0].Theirs) != 3 {
		t.Errorf("%+v %+v %+v", pairs[0], pairs[1], pairs[2])
	}
	// All of it on one format of the KV cache, said to each program.
	f16 := `case "$*" in *"%s f16 %s f16"*) ;; *) echo no cache types: "$*" >&2; exit 1;; esac; `
	for _, name := range []string{"llama-bench", "llama-batched-bench", "minfer-cli"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		flags := []any{"-ctk", "-ctv"}
		if name == "minfer-cli" {
			flags = []any{"--cache-type-k", "--cache-type-v"}
		}
		script(name, fmt.Sprintf(f16, flags...)+strings.TrimPrefix(string(text), "#!/bin/sh\n"))
	}
	if _, err := o.compare(t.Context(), "x.gguf"); err != nil {
		t.Error(err)
	}
	// A file that one side can't run costs none of the figures of those before it.
	script("llama-batched-bench", `case "$*" in *bad.gguf*) echo cannot load >&2; exit 1;; *) echo '{"pl":4,"speed_tg":4}';; esac`)
	o.files = []string{"x.gguf", "bad.gguf", "y.gguf"}
	if all, err := o.compareAll(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot load") || len(all) != 3 {
		t.Errorf("%d pairs, %v", len(all), err)
	}
	o.minfer = script("broken", "echo wrong output >&2; exit 1")
	if _, err := o.compare(t.Context(), "x.gguf"); err == nil || !strings.Contains(err.Error(), "wrong output") {
		t.Error(err)
	}
}
