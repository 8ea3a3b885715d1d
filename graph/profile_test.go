package graph

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPhase(t *testing.T) {
	for _, c := range []struct {
		rows, outputs int
		want          Phase
	}{{512, 0, PhasePrompt}, {512, 1, PhasePrompt}, {9, 8, PhasePrompt}, {8, 8, PhaseDecode}, {1, 1, PhaseDecode}, {1, 0, PhasePrompt}} {
		assert.Equal(t, c.want, Params{Rows: c.rows, Outputs: c.outputs}.Phase(), "%d rows, %d outputs", c.rows, c.outputs)
	}
}

// profiled are two phases of two workers.
func profiled() []Profile {
	return []Profile{
		{Phase: PhasePrompt, Steps: 1, Workers: 2, Time: 5 * time.Millisecond, Lines: []ProfileLine{
			{Name: "product", Calls: 4, Time: 8 * time.Millisecond, Bytes: 3e6, MACs: 200e6}, {Name: "norm", Calls: 2, Time: 2 * time.Millisecond}}},
		{Phase: PhaseDecode, Steps: 3, Workers: 2, Time: 4 * time.Millisecond, Lines: []ProfileLine{
			{Name: "attention", Calls: 1, Time: 8 * time.Millisecond, Bytes: 4e6}, {Name: "else"}}},
	}
}

func TestWriteProfile(t *testing.T) {
	var out strings.Builder
	require.NoError(t, WriteProfile(&out, profiled(), 3e9, 100e9))
	var lines []string
	for l := range strings.Lines(out.String()) {
		lines = append(lines, strings.Join(strings.Fields(l), " "))
	}
	assert.Equal(t, []string{
		"prompt: 1 step, 5.000 ms, means of 2 threads",
		"work calls ms share MB GB/s of read GMAC/s of int8",
		"product 4 4.000 80.0 % 3.0 0.8 25.0 % 50.0 50.0 %",
		"norm 2 1.000 20.0 % - - - - -",
		"decode: 3 steps, 4.000 ms, means of 2 threads",
		"work calls ms share µs a call MB GB/s of read", // no column for what nothing has
		"attention 1 4.000 100.0 % 4000.00 4.0 1.0 33.3 %",
		"else 0 0.000 0.0 % 0.00 - - -",
	}, lines)
	out.Reset()
	require.NoError(t, WriteProfile(&out, profiled(), 0, 0))
	assert.Regexp(t, `product .* 0\.8 +- +50\.0 +-\n`, out.String(), "rates, but no shares of limits that aren't known")
}

// A long prompt's table is as wide as a terminal.
func TestProfileWidth(t *testing.T) {
	p := Profile{Phase: PhasePrompt, Steps: 4, Workers: 1, Time: 9 * time.Second, Lines: []ProfileLine{
		{Name: "Q4_K products, 512 rows", Calls: 22688, Time: 9 * time.Second, Bytes: 99e9, MACs: 1800e9}, {Name: "attention", Calls: 28, Time: time.Second, Bytes: 15e9}}}
	var out strings.Builder
	require.NoError(t, WriteProfile(&out, []Profile{p}, 10e9, 190e9))
	for l := range strings.Lines(out.String()) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(l, "\n")), 80, l)
	}
	assert.Contains(t, out.String(), "\nQ4_K products, 512 rows 22688 9000.0 100.0 % 99000 11.0 110.0 %  200.0 105.3 %\n")
}

func TestAddProfiles(t *testing.T) {
	first := profiled()
	sum := AddProfiles(nil, first[1:])
	sum = AddProfiles(sum, first)
	sum = AddProfiles(sum, []Profile{{Phase: PhaseDecode, Steps: 1, Workers: 2, Time: 9 * time.Millisecond, Lines: []ProfileLine{{Name: "swiglu", Calls: 5, Time: 18 * time.Millisecond}}}})
	assert.Equal(t, profiled(), first, "what is added stays as it is")
	require.Len(t, sum, 2)
	assert.Equal(t, first[0], sum[0], "the prompt first")
	assert.Equal(t, Profile{Phase: PhaseDecode, Steps: 7, Workers: 2, Time: 17 * time.Millisecond, Lines: []ProfileLine{
		{Name: "swiglu", Calls: 5, Time: 18 * time.Millisecond}, {Name: "attention", Calls: 2, Time: 16 * time.Millisecond, Bytes: 8e6}, {Name: "else"}}}, sum[1])
}

func TestProfileJSON(t *testing.T) {
	text, err := json.Marshal(profiled()[1])
	require.NoError(t, err)
	assert.JSONEq(t, `{"phase":"decode","steps":3,"workers":2,"ns":4000000,"lines":[{"name":"attention","calls":1,"ns":8000000,"bytes":4000000},{"name":"else","calls":0,"ns":0}]}`, string(text))
	var back Profile
	require.NoError(t, json.Unmarshal(text, &back))
	assert.Equal(t, profiled()[1], back)
	assert.ErrorContains(t, json.Unmarshal([]byte(`{"phase":"load"}`), &back), `no phase "load"`)
}
