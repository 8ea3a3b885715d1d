// Package sample chooses the next token from a model's logits, and finds stop strings in the text that comes out.
//
// # Order
//
// As llama.cpp's default chain, without the samplers that it has switched off by default (DRY, top-n-sigma, XTC, mirostat), which don't exist here:
//
//	logit bias → penalties → top-k → typical-p → top-p → min-p → temperature → draw
//
// Default returns llama.cpp's values: top-k 40, typical-p 1 (off), top-p 0.95, min-p 0.05, temperature 0.8, penalties off
// over a window of 64 tokens. Each filter sees the probabilities of what the one before it left, at temperature 1. A temperature of 0
// takes the most probable token that is left. FromMetadata applies a file's general.sampling.* keys.
//
// # Same seed, same tokens
//
// A draw depends on the logits, the parameters, the accepted tokens and the number of draws so far, and on nothing else: PCG of math/rand/v2 gives the
// numbers, sums are float64 in a fixed order, the exponential is this package's own (the library's differs in the last bits between machines),
// and of equal logits the lower id comes first.
//
// # Cost
//
// With top-k, or greedy, one pass over the logits and no allocation. Without top-k the whole vocabulary is weighed: some milliseconds for
// 152k tokens. Only as many tokens are sorted as a filter keeps.
//
// A Sampler belongs to one goroutine.
package sample
