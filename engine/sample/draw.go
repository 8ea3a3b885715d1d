package sample

import "math"

// Draw is what a backend needs to draw a token by itself (graph.Builder.Sample has the formula).
type Draw struct {
	Temperature float64 // 0: the most probable token
	TopP, MinP  float64
	U           float64 // random, of [0, 1): where the draw falls
	TopK        int     // 0: all
}

// Words writes d as a row of graph.InSampling.
func (d Draw) Words(w []int32) {
	for i, x := range [...]float64{d.Temperature, d.TopP, d.MinP, d.U} {
		b := math.Float64bits(x)
		w[2*i], w[2*i+1] = int32(uint32(b)), int32(uint32(b>>32))
	}
	w[8], w[9] = int32(d.TopK), 0
}

// Draw gives the next token's draw and reports whether nothing beside temperature, top-k, top-p and min-p decides it: else only
// Sample can draw. It takes the random number that Sample would take; SampleWith takes it back.
func (s *Sampler) Draw() (Draw, bool) {
	p := &s.p
	if p.penalises() || len(s.bias) > 0 || len(p.Banned) > 0 || p.TypicalP > 0 && p.TypicalP < 1 {
		return Draw{}, false
	}
	return Draw{p.Temperature, p.TopP, p.MinP, s.uniform(), max(0, min(p.TopK, s.vocab))}, true
}

// SampleWith draws from logits as Sample does, with the random number of a draw that the backend could not make.
func (s *Sampler) SampleWith(logits []float32, d Draw) (int32, error) {
	if err := s.candidates(logits); err != nil {
		return 0, err
	}
	return s.draw(d.U), nil
}
