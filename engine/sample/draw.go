package sample

// Draw is what a backend needs to draw a token by itself (graph.Builder.Sample has the formula).
type Draw struct {
	Temperature float32 // 0: the most probable token
	TopK        int32   // 0: all
	TopP, MinP  float32
	U           uint32 // random: U/2^32 is where the draw falls
}

// Draw gives the next token's draw and reports whether nothing beside temperature, top-k, top-p and min-p decides it: else only
// Sample can draw. It takes the random number that Sample would take.
func (s *Sampler) Draw() (Draw, bool) {
	p := &s.p
	if p.penalises() || len(s.bias) > 0 || len(p.Banned) > 0 || p.TypicalP > 0 && p.TypicalP < 1 {
		return Draw{}, false
	}
	return Draw{float32(p.Temperature), int32(min(p.TopK, s.vocab)), float32(p.TopP), float32(p.MinP), uint32(s.rng.Uint64() >> 32)}, true
}
