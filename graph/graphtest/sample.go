package graphtest

import (
	"fmt"
	"math"
	"slices"

	"github.com/minfer-go/minfer/graph"
)

// draw is a row of graph.InSampling.
type draw struct {
	temperature float64
	topK        int32
	topP, minP  float64
	u           float64 // 0 to 1
}

func (d draw) words() (w []int32) {
	for _, x := range []float64{d.temperature, d.topP, d.minP, d.u} {
		b := math.Float64bits(x)
		w = append(w, int32(uint32(b)), int32(uint32(b>>32)))
	}
	return append(w, d.topK, 0)
}

// number reads the i-th float64 of a row of words.
func number(w []int32, i int) float64 {
	return math.Float64frombits(uint64(uint32(w[2*i])) | uint64(uint32(w[2*i+1]))<<32)
}

func sampling() (all []Case) {
	add := func(name string, vocab, n int, draws ...draw) {
		c := Case{Name: "Sample/" + name, Op: graph.OpSample, Params: params(len(draws))}
		c.Params.Outputs = len(draws)
		var words []int32
		for _, d := range draws {
			words = append(words, d.words()...)
		}
		c.Inputs = map[graph.Input][]int32{graph.InSampling: words}
		c.Build = func(c *Context) {
			c.Output(c.Sample(c.Scale(c.X("logits", n), 3), c.Input(graph.InSampling), graph.SampleAttr{Vocab: vocab}))
		}
		all = append(all, c)
	}
	for _, n := range []int{1, 33, 1000, 5003} {
		add(fmt.Sprintf("greedy/%d", n), n, n, draw{}, draw{topK: 40, topP: 0.9, u: 0.99}, draw{topP: 1})
		add(fmt.Sprintf("all/%d", n), n, n, draw{1, 0, 1, 0, 0.03}, draw{0.7, 0, 1, 0, 0.41}, draw{1.5, 0, 1, 0, 0.93})
		add(fmt.Sprintf("top-k/%d", n), n, n, draw{1, 40, 1, 0, 0.07}, draw{0.8, 5, 1, 0, 0.61}, draw{1, 1, 1, 0, 0.9}, draw{2, 100, 1, 0, 0.97})
		add(fmt.Sprintf("top-p/%d", n), n, n, draw{1, 0, 0.9, 0, 0.21}, draw{0.8, 40, 0.95, 0.05, 0.87}, draw{1, 20, 0.3, 0, 0.52})
		add(fmt.Sprintf("min-p/%d", n), n, n, draw{1, 0, 1, 0.1, 0.33}, draw{0.8, 40, 1, 0.05, 0.71}, draw{1, 0, 1, 1, 0.5})
	}
	add("rows beyond the vocabulary", 200, 333, draw{}, draw{1, 0, 1, 0, 0.999}, draw{1, 50, 0.9, 0, 0.77})
	return all
}

// sample is the formula of graph.Builder.Sample, in float64.
func sample(out, logits, sampling tensor, a graph.SampleAttr) func() {
	return func() {
		ids := flat(out)
		for r := range ids {
			w := sampling.ints(r)
			ids[r] = drawFrom(logits.row(r)[:a.Vocab], number(w, 0), int(w[8]), number(w, 1), number(w, 2), number(w, 3))
		}
	}
}

func drawFrom(logits []float32, temperature float64, k int, p, m, u float64) int32 {
	for _, l := range logits {
		if l != l || math.IsInf(float64(l), 1) {
			return -1
		}
	}
	cand := make([]int32, len(logits))
	for i := range cand {
		cand[i] = int32(i)
	}
	slices.SortStableFunc(cand, func(x, y int32) int {
		switch {
		case logits[x] > logits[y]:
			return -1
		case logits[x] < logits[y]:
			return 1
		}
		return 0
	})
	top := float64(logits[cand[0]])
	if math.IsInf(top, -1) {
		return -1
	}
	if k > 0 && k < len(cand) {
		cand = cand[:k]
	} else if p >= 1 && m == 0 && temperature != 0 { // nothing needs an order
		slices.Sort(cand)
	}
	prob, sum := make([]float64, len(cand)), 0.0
	for i, c := range cand {
		prob[i] = math.Exp(float64(logits[c]) - top)
		sum += prob[i]
	}
	if p < 1 {
		n, mass := 0, 0.0
		for n < len(cand) {
			mass += prob[n] / sum
			if n++; mass >= p {
				break
			}
		}
		cand, prob = cand[:n], prob[:n]
	}
	for len(cand) > 1 && prob[len(cand)-1] < m*prob[0] {
		cand = cand[:len(cand)-1]
	}
	if temperature == 0 {
		return cand[0]
	}
	total := 0.0
	for _, c := range cand {
		total += math.Exp((float64(logits[c]) - top) / temperature)
	}
	at := 0.0
	for _, c := range cand {
		if at += math.Exp((float64(logits[c]) - top) / temperature); at > u*total {
			return c
		}
	}
	return cand[len(cand)-1]
}
