package kernelscuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// drawReference is package sample's order: top-k → top-p → min-p → temperature → draw, all in float64.
func drawReference(logits []float32, row SampleRow) int32 {
	type candidate struct {
		id    int32
		logit float64
		w     float64
	}
	var c []candidate
	top := math.Inf(-1)
	for i, x := range logits {
		if x != x || x > math.MaxFloat32 {
			return TokenBadLogits
		}
		if x >= -math.MaxFloat32 {
			c = append(c, candidate{id: int32(i), logit: float64(x)})
			top = math.Max(top, float64(x))
		}
	}
	if len(c) == 0 {
		return TokenBadLogits
	}
	byLogit := func(a, b candidate) int {
		if a.logit != b.logit {
			return int(math.Copysign(1, b.logit-a.logit))
		}
		return int(a.id - b.id)
	}
	weigh := func(t float64) (sum float64) {
		for i := range c {
			c[i].w = math.Exp((c[i].logit - top) / t)
			sum += c[i].w
		}
		return sum
	}
	k := int(row.TopK)
	if row.Temperature == 0 {
		k = 1
	}
	if k > 0 && k < len(logits) {
		slices.SortFunc(c, byLogit)
		c = c[:min(k, len(c))]
	}
	sum := weigh(1)
	if row.TopP < 1 {
		slices.SortFunc(c, byLogit)
		cum, n := 0.0, 0
		for n < len(c) {
			cum += c[n].w
			n++
			if cum >= row.TopP*sum {
				break
			}
		}
		c = c[:n]
	}
	c = slices.DeleteFunc(c, func(x candidate) bool { return x.w < row.MinP })
	if row.Temperature == 0 {
		return c[0].id
	}
	limit, cum := row.U*weigh(row.Temperature), 0.0
	for _, x := range c {
		if cum += x.w; cum > limit {
			return x.id
		}
	}
	panic("u is below 1")
}

func TestSampleAsOnTheHost(t *testing.T) {
	require.EqualValues(t, 40, unsafe.Sizeof(SampleRow{}))
	e := emulate(t)
	r := rand.New(rand.NewPCG(17, 18))
	for _, vocab := range []int{1, 3, 700, 5003} {
		stride := vocab + 3
		logits := random(r, 2*stride, 3)
		for i := range 20 {
			logits[r.IntN(vocab)] = float32(5 + i/4) // ties
			logits[stride+r.IntN(vocab)] = float32(math.Inf(-1))
		}
		var rows []SampleRow
		for _, row := range []SampleRow{
			{Temperature: 0, TopP: 1}, {Temperature: 0, TopP: 0.3, TopK: 5, MinP: 0.1},
			{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05}, {Temperature: 1.5, TopK: 7, TopP: 1}, {Temperature: 1, TopP: 0.5},
			{Temperature: 1, TopP: 0}, {Temperature: 0.7, TopP: 1, MinP: 0.2}, {Temperature: 1.1, TopP: 1}, {Temperature: 0.9, TopK: 300, TopP: 0.999, MinP: 0.001},
			{Temperature: 3, TopP: 0.6, MinP: 0.02}, {Temperature: 1, TopK: 100000, TopP: 1},
		} {
			for _, u := range []float64{0, 0.3, 0.77, 0.999999} {
				row.U = u
				rows = append(rows, row, row)
			}
		}
		all := make([]float32, 0, len(rows)*stride)
		for i := range rows {
			all = append(all, logits[i%2*stride:][:stride]...)
		}
		tokens := e.alloc(4 * len(rows))
		require.NoError(t, e.SampleF32(e, &SampleParams{Logits: put(e, all), Choices: put(e, rows), Tokens: tokens, Rows: int32(len(rows)), Vocab: int32(vocab), Stride: int32(stride)}))
		for i, got := range get[int32](e, tokens, len(rows)) {
			require.Equal(t, drawReference(all[i*stride:][:vocab], rows[i]), got, fmt.Sprintf("vocabulary of %d, row %d: %+v", vocab, i, rows[i]))
		}
	}
}

func TestSampleRefusesAndHandsOver(t *testing.T) {
	e := emulate(t)
	const vocab = 4000
	flat, nan, inf, none := make([]float32, vocab), make([]float32, vocab), make([]float32, vocab), make([]float32, vocab)
	nan[17], inf[3999] = float32(math.NaN()), float32(math.Inf(1))
	for i := range none {
		none[i] = float32(math.Inf(-1))
	}
	all := slices.Concat(flat, flat, flat, nan, inf, none)
	rows := []SampleRow{
		{Temperature: 1, TopP: 0.9, U: 0.5}, {Temperature: 1, TopP: 1, TopK: 600, U: 0.5}, {Temperature: 1, TopP: 1, MinP: 0.1, U: 0.5},
		{TopP: 1}, {Temperature: 1, TopP: 1, TopK: 3}, {Temperature: 1, TopP: 0.5},
	}
	tokens := e.alloc(4 * len(rows))
	require.NoError(t, e.SampleF32(e, &SampleParams{Logits: put(e, all), Choices: put(e, rows), Tokens: tokens, Rows: int32(len(rows)), Vocab: vocab, Stride: vocab}))
	require.Equal(t, []int32{TokenOnHost, TokenOnHost, TokenOnHost, TokenBadLogits, TokenBadLogits, TokenBadLogits}, get[int32](e, tokens, len(rows)))
}

// Temperature 0 is the best token whatever the filters say: of equals the first, -0 no less than 0.
func TestSampleBest(t *testing.T) {
	e := emulate(t)
	const vocab, stride = 9001, 9004
	r := rand.New(rand.NewPCG(19, 20))
	logits := random(r, 6*stride, 1)
	for _, i := range []int{8000, 77, 300} {
		logits[i] = 9
	}
	logits[stride+vocab-1] = 7
	logits[2*stride+5] = float32(math.NaN())
	logits[3*stride+5] = float32(math.Inf(1))
	for i := range vocab {
		logits[4*stride+i] = float32(math.Inf(-1))
		logits[5*stride+i] = -1
	}
	logits[5*stride+40], logits[5*stride+41] = float32(math.Copysign(0, -1)), 0
	rows := slices.Repeat([]SampleRow{{TopP: 0.5, MinP: 0.1, TopK: 900}}, 6)
	tokens := e.alloc(24)
	require.NoError(t, e.SampleF32(e, &SampleParams{Logits: put(e, logits), Choices: put(e, rows), Tokens: tokens, Rows: 6, Vocab: vocab, Stride: stride}))
	require.Equal(t, []int32{77, vocab - 1, TokenBadLogits, TokenBadLogits, TokenBadLogits, 40}, get[int32](e, tokens, 6))
}
