package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cli/bench"
)

// TestProfile: --profile prints where the time went and puts it into JSON; without it there is none of it.
func TestProfile(t *testing.T) {
	answer := []string{"run", "--backend", "cpu", "-t", "2", "-m", tinyModel, "--raw", "--greedy", "-n", "5", "Hello, my friend"}
	assert.Contains(t, ok(t, answer...), " ")

	r := run(t, append(answer, "--profile")...)
	require.Zero(t, r.code, r.stderr)
	for _, want := range []string{`prompt: 1 step, [\d.]+ ms, means of 2 threads`, `decode: 4 steps`, `\w+ products, 1 row +\d+ `, `attention +\d+ `, `norm +\d+ `, `rope +\d+ `, `SwiGLU +\d+ `,
		`rounding +\d+ `, `cache writes +\d+ `, `waiting +\d+ `, `(?m)^ +work .* of read +GMAC/s +of int8$`, `beside these: [\d.]+ ms of [\d.]+ ms`} {
		assert.Regexp(t, want, r.stderr)
	}
	var got figures
	r = run(t, append(answer, "--profile", "--json")...)
	require.Zero(t, r.code, r.stderr)
	decode(t, r.stdout, &got)
	require.NotNil(t, got.Profile)
	require.Len(t, got.Profile.Phases, 2)
	assert.Positive(t, got.Profile.ReadGBs)
	assert.Positive(t, got.Profile.Int8GMACs)
	for _, p := range got.Profile.Phases {
		sum := int64(0)
		for _, l := range p.Lines {
			sum += int64(l.Time)
		}
		assert.Equal(t, int64(p.Time)*int64(p.Workers), sum)
	}
	r = run(t, "logits", "--backend", "cpu", "-m", tinyModel, "--tokens", "1,2,3", "--last", "--profile")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stderr, "prompt: 1 step, ")
}

// TestBenchProfile: each test has its own repetitions in its tables, not the warm-up nor reference steps.
func TestBenchProfile(t *testing.T) {
	r := run(t, "bench", "--backend", "cpu", "-t", "2", "-m", tinyModel, "-p", "9", "-n", "3", "-b", "2", "-r", "2", "--profile", "-o", "json")
	require.Zero(t, r.code, r.stderr)
	var results []bench.Result
	decode(t, r.stdout, &results)
	require.Len(t, results, 3)
	for i, test := range results {
		require.Len(t, test.Profile, 1, test.Test)
		assert.Equal(t, []int{2, 6, 32}[i], test.Profile[0].Steps, test.Test)
		assert.Contains(t, r.stderr, test.Test+", 2 threads, 2 repetitions:\n"+test.Profile[0].Phase.String()+": ")
	}
	assert.Contains(t, ok(t, "bench", "--backend", "cpu", "-m", tinyModel, "-p", "9", "-n", "0", "-r", "1"), "pp9")
}
