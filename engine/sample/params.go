package sample

import (
	"errors"
	"fmt"
	"math"
)

// ErrParams marks parameters out of range.
var ErrParams = errors.New("invalid sampling parameter")

// Params of a Sampler. The zero value is greedy without penalties; Default gives llama.cpp's.
type Params struct {
	Temperature float64 // 0 is greedy: the most probable token
	TopK        int     // keep the k most probable; 0 is off
	TypicalP    float64 // locally typical sampling (arXiv 2202.00666); 0 and 1 are off
	TopP        float64 // nucleus sampling (arXiv 1904.09751); 1 is off, 0 keeps one token
	MinP        float64 // keep what has at least this share of the best one's probability; 0 is off

	RepeatPenalty    float64 // a seen token's logit is divided by it, or multiplied where negative (arXiv 1909.05858); 0 and 1 are off
	FrequencyPenalty float64 // taken off a token's logit for each time it was seen
	PresencePenalty  float64 // taken off once if it was seen
	RepeatLastN      int     // how many accepted tokens the penalties look at; 0 is off, -1 is all

	LogitBias map[int32]float64 // added to the logits of these ids; -Inf forbids one
	Seed      uint64
	Banned    []Range // ids that are never sampled, whatever their logits are, NaN included
}

// Range of ids From <= id < To.
type Range struct{ From, To int32 }

// Default returns llama.cpp's parameters (common_params_sampling), with seed 0.
func Default() Params {
	return Params{Temperature: 0.8, TopK: 40, TypicalP: 1, TopP: 0.95, MinP: 0.05, RepeatPenalty: 1, RepeatLastN: 64}
}

// Validate names the first parameter out of range; the error wraps ErrParams.
func (p Params) Validate() error {
	bad := func(name string, value any, want string) error {
		return fmt.Errorf("sample: %s %v: want %s: %w", name, value, want, ErrParams)
	}
	finite := func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
	switch {
	case !finite(p.Temperature) || p.Temperature < 0:
		return bad("temperature", p.Temperature, "0 or more")
	case p.TopK < 0:
		return bad("top-k", p.TopK, "0 or more")
	case !(p.TypicalP >= 0 && p.TypicalP <= 1):
		return bad("typical-p", p.TypicalP, "0 to 1")
	case !(p.TopP >= 0 && p.TopP <= 1):
		return bad("top-p", p.TopP, "0 to 1")
	case !(p.MinP >= 0 && p.MinP <= 1):
		return bad("min-p", p.MinP, "0 to 1")
	case !finite(p.RepeatPenalty) || p.RepeatPenalty < 0:
		return bad("repeat penalty", p.RepeatPenalty, "more than 0, or 0 for off")
	case !finite(p.FrequencyPenalty):
		return bad("frequency penalty", p.FrequencyPenalty, "a finite number")
	case !finite(p.PresencePenalty):
		return bad("presence penalty", p.PresencePenalty, "a finite number")
	case p.RepeatLastN < -1:
		return bad("repeat-last-n", p.RepeatLastN, "-1 or more")
	}
	for id, b := range p.LogitBias {
		if id < 0 {
			return bad("logit bias of token", id, "an id of 0 or more")
		}
		if math.IsNaN(b) || math.IsInf(b, 1) {
			return bad(fmt.Sprintf("logit bias of token %d", id), b, "a finite number or -Inf")
		}
	}
	for _, r := range p.Banned {
		if r.From < 0 || r.To < r.From {
			return bad("banned range", r, "0 <= from <= to")
		}
	}
	return nil
}

func (p Params) penalises() bool {
	repeat := p.RepeatPenalty != 0 && p.RepeatPenalty != 1
	return p.RepeatLastN != 0 && (repeat || p.FrequencyPenalty != 0 || p.PresencePenalty != 0)
}
