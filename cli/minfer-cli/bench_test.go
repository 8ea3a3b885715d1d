package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/cli/bench"
)

func TestBench(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "speed.svg")
	var results []bench.Result
	decode(t, ok(t, "bench", "-m", tinyModel, "-p", "9", "-n", "3", "-b", "2", "--depths", "0,20", "-r", "2", "-t", "1,2", "--cache-type-k", "q8_0", "--cache-type-v", "f32",
		"--backend", "cpu", "--cpu-path", "generic", "--plot", plot, "-o", "json"), &results)
	require.Len(t, results, 12)
	for i, r := range results {
		assert.Equal(t, []string{"pp9", "tg3", "b2", "pp9 @ d20", "tg3 @ d20", "b2 @ d20"}[i%6], r.Test)
		assert.Equal(t, 1+i/6, r.Threads)
		assert.Equal(t, "cpu generic q8_0 f32", strings.Join([]string{r.Backend, r.Path, r.TypeK, r.TypeV}, " "))
		assert.Equal(t, "finite, best token as in a reference step", r.Output)
		assert.Len(t, r.Samples, 2)
		for _, x := range []float64{r.TokS, r.GBs, r.GMACs, r.ReadGBs, r.Int8GMACs, r.ReadShare, r.Int8Share} {
			assert.Positive(t, x)
		}
	}
	svg, err := os.ReadFile(plot)
	require.NoError(t, err)
	assert.Equal(t, 6, strings.Count(string(svg), "<polyline"))
}

// Weights made in memory, and the instruction path that this machine and build offer unless another is asked for.
func TestBenchSynthetic(t *testing.T) {
	paths := backendcpu.Paths()
	best := paths[len(paths)-1]
	assert.Regexp(t, `\| tiny \(random weights\) +\| [^|]+\| [^|]+\| cpu `+best+` +\| +1 \| f16 +\| +tg2 \|`, ok(t, "bench", "--backend", "cpu", "--synthetic", "tiny:q4_k_m", "-p", "0", "-n", "2", "-r", "1", "-t", "1"))
}

// 0 threads and the number that it stands for are one measurement.
func TestBenchSameThreadsTwice(t *testing.T) {
	quick := []string{"bench", "-m", tinyModel, "--backend", "cpu", "-p", "0", "-n", "1", "-r", "1", "-o", "json", "-t"}
	var results []bench.Result
	decode(t, ok(t, append(quick, "0")...), &results)
	require.Len(t, results, 1)
	r := run(t, append(quick, fmt.Sprintf("%d,0", results[0].Threads))...)
	assert.Equal(t, 2, r.code)
	assert.Contains(t, r.stderr, "measured twice")
	assert.Empty(t, r.stdout)
	assertOneLine(t, r)
}

// A picture is replaced by a whole one or stays; a run that fails leaves nothing.
func TestBenchKeepsThePlot(t *testing.T) {
	dir := t.TempDir()
	plot := filepath.Join(dir, "speed.svg")
	require.NoError(t, os.WriteFile(plot, []byte("before"), 0o600))
	quick := []string{"bench", "-m", tinyModel, "-n", "1", "-r", "1", "-d", "0,3", "--plot", plot}
	r := run(t, append(quick, "-p", "2000000")...)
	require.Equal(t, 2, r.code)
	if _, err := os.Stat("/dev/full"); err == nil {
		cmd := command(append(quick, "-p", "2")...)
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		defer full.Close()
		cmd.Stdout = full
		require.Error(t, cmd.Run())
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
	}
	text, err := os.ReadFile(plot)
	require.NoError(t, err)
	require.Equal(t, "before", string(text))
	ok(t, append(quick, "-p", "2")...)
	text, err = os.ReadFile(plot)
	require.NoError(t, err)
	require.Regexp(t, `^<svg [\s\S]*</svg>\n$`, string(text))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1)

	folder := filepath.Join(dir, "folder.svg")
	require.NoError(t, os.Mkdir(folder, 0o700))
	r = run(t, append(quick, "-p", "2", "--plot", folder)...)
	require.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "no regular file")
}

func TestBenchRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for want, args := range map[string][]string{
		`-p "x": want numbers from 0`: {"-p", "x"}, `-n "-1": want`: {"-n", "-1"}, `-t "1,1": 1 stands there twice`: {"-t", "1,1"}, `--depths "": want`: {"--depths", ""},
		"0 repetitions": {"-r", "0"}, "nothing to measure": {"-p", "0", "-n", "0"}, "the model has 1024": {"-d", "1000"}, "two or more --depths": {"--plot", "x.svg"},
		"ends in .svg": {"--plot", "x.png", "-d", "0,1"}, "give one of them": {"-m", tinyModel, "--synthetic", "tiny:q8_0"}, "shapes are qwen2.5-0.5b": {"--synthetic", "gpt:q8_0"},
		`"q4"`: {"--cache-type-k", "q4"}, "33 sequences": {"-b", "33"}, "--output must be one of": {"-o", "xml"}, "--backend must be one of": {"--backend", "abacus"},
	} {
		r := run(t, append([]string{"bench"}, args...)...)
		assert.Equal(t, 2, r.code, "%q", args)
		assert.Contains(t, r.stderr, want)
		assert.Empty(t, r.stdout, "%q", args)
		assertOneLine(t, r)
	}
	for want, args := range map[string][]string{
		"none": {"-m", none}, "1024": {"-t", "100000"}, "abacus": {"--cpu-path", "abacus"}, "no such file or directory": {"-n", "1", "-d", "0,1", "--plot", filepath.Join(none, "x.svg")},
	} {
		r := run(t, append([]string{"bench"}, args...)...)
		assert.Equal(t, 1, r.code, "%q", args)
		assert.Contains(t, r.stderr, want)
		assertOneLine(t, r)
	}
}
