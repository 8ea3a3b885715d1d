package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// ErrLogits marks logits from which nothing can be sampled.
var ErrLogits = errors.New("bad logits")

// stream is the second seed of PCG: any constant would do, but it is part of what a seed means.
const stream = 0x9e3779b97f4a7c15

// Sampler draws tokens. Make one with New for each answer; it isn't safe for concurrent use.
type Sampler struct {
	p       Params
	vocab   int
	rng     *rand.PCG
	allowed []Range
	history history
	patches []patch
	bias    []biasOf
	cands   []candidate // what the filters left, most probable first unless nothing needed an order
	spare   []candidate
	probs   []candidate // of TopProbs
	total   float64     // sum of the candidates' final weights
}

type candidate struct {
	id     int32
	logit  float32
	weight float64 // proportional to the probability
}

// patch is a logit that bias or penalties changed, and what it was.
type patch struct {
	id  int32
	was float32
}

type biasOf struct {
	id  int32
	add float64
}

// New returns a sampler for a vocabulary of vocab tokens. Logits may be longer: what lies beyond is never sampled.
func New(p Params, vocab int) (*Sampler, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if vocab <= 0 || vocab > math.MaxInt32 {
		return nil, fmt.Errorf("sample: a vocabulary of %d tokens: %w", vocab, ErrParams)
	}
	s := &Sampler{p: p, vocab: vocab, rng: rand.NewPCG(p.Seed, stream)}
	if s.allowed = allowed(p.Banned, vocab); len(s.allowed) == 0 {
		return nil, fmt.Errorf("sample: all %d tokens are banned: %w", vocab, ErrParams)
	}
	for id, b := range p.LogitBias {
		if int(id) >= vocab {
			return nil, fmt.Errorf("sample: logit bias of token %d: the vocabulary has %d: %w", id, vocab, ErrParams)
		}
		if b != 0 {
			s.bias = append(s.bias, biasOf{id, b})
		}
	}
	slices.SortFunc(s.bias, func(a, b biasOf) int { return int(a.id) - int(b.id) })
	if p.penalises() {
		s.history = newHistory(vocab, p.RepeatLastN)
	}
	return s, nil
}

// allowed returns what banned leaves of 0 <= id < vocab, ascending.
func allowed(banned []Range, vocab int) (out []Range) {
	b := slices.Clone(banned)
	slices.SortFunc(b, func(x, y Range) int { return int(x.From) - int(y.From) })
	from, end := int32(0), int32(vocab)
	for _, r := range b {
		if r.From >= end {
			break
		}
		if r.From > from {
			out = append(out, Range{from, r.From})
		}
		from = max(from, min(r.To, end))
	}
	if from < end {
		out = append(out, Range{from, end})
	}
	return out
}

// Accept tells the sampler of a token that is part of the sequence now, of the prompt as well: penalties look at them. Ids outside
// the vocabulary are ignored.
func (s *Sampler) Accept(id int32) {
	if id >= 0 && int(id) < s.vocab {
		s.history.add(id)
	}
}

// Sample draws a token. It doesn't accept it. logits has at least one value for each token of the vocabulary; some are changed during the call and
// restored before it returns. A NaN, a +Inf or no value above -Inf among those that may be sampled is an error that wraps ErrLogits.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	if err := s.candidates(logits); err != nil {
		return 0, err
	}
	return s.draw(s.uniform()), nil
}

// candidates weighs what may be drawn.
func (s *Sampler) candidates(logits []float32) error {
	if len(logits) < s.vocab {
		return fmt.Errorf("sample: %d logits for a vocabulary of %d: %w", len(logits), s.vocab, ErrLogits)
	}
	logits = logits[:s.vocab]
	s.patch(logits)
	err := s.filter(logits)
	s.restore(logits)
	return err
}

// uniform is the next random number of [0, 1).
func (s *Sampler) uniform() float64 { return float64(s.rng.Uint64()>>11) / (1 << 53) }

// patch applies bias, then penalties.
func (s *Sampler) patch(logits []float32) {
	s.patches = s.patches[:0]
	for _, b := range s.bias {
		s.patches = append(s.patches, patch{b.id, logits[b.id]})
		logits[b.id] = float32(float64(logits[b.id]) + b.add)
	}
	repeat := s.p.RepeatPenalty
	if repeat == 0 {
		repeat = 1
	}
	s.history.each(func(id int32, count int) {
		s.patches = append(s.patches, patch{id, logits[id]})
		l := float64(logits[id])
		if l <= 0 {
			l *= repeat
		} else {
			l /= repeat
		}
		l -= float64(float64(count)*s.p.FrequencyPenalty) + s.p.PresencePenalty
		logits[id] = float32(l)
	})
}

// restore undoes patch, the last change first: an id may be in both lists.
func (s *Sampler) restore(logits []float32) {
	for i := len(s.patches) - 1; i >= 0; i-- {
		logits[s.patches[i].id] = s.patches[i].was
	}
}

// filter fills s.cands.
func (s *Sampler) filter(logits []float32) error {
	typical := s.p.TypicalP > 0 && s.p.TypicalP < 1
	k := s.p.TopK
	if s.p.Temperature == 0 && !typical {
		k = 1 // no other filter takes the best one away
	}
	var err error
	sorted := k > 0 && k < s.vocab
	if sorted {
		err = s.best(logits, k)
	} else {
		err = s.all(logits)
	}
	if err != nil {
		return err
	}
	if len(s.cands) > 1 {
		s.weigh(1)
		if typical {
			s.typical(s.p.TypicalP)
			slices.SortFunc(s.cands, compareLogit)
			sorted = true
		}
		if s.p.TopP < 1 {
			s.topP(s.p.TopP, sorted)
		}
		if s.p.MinP > 0 {
			s.minP(s.p.MinP)
		}
	}
	if s.p.Temperature == 0 {
		s.greedy()
	} else {
		s.weigh(s.p.Temperature)
	}
	s.total = 0
	for i := range s.cands {
		s.total += s.cands[i].weight
	}
	return nil
}

// greedy leaves the best candidate only.
func (s *Sampler) greedy() {
	best := s.cands[0]
	for _, c := range s.cands[1:] {
		if before(c, best) {
			best = c
		}
	}
	best.weight = 1
	s.cands = append(s.cands[:0], best)
}

// draw walks the candidates until their weights pass the share u of the sum. Each token takes one number, whatever is left to choose from.
func (s *Sampler) draw(u float64) int32 {
	limit, sum := u*s.total, 0.0
	for i := range s.cands {
		sum += s.cands[i].weight
		if sum > limit {
			return s.cands[i].id
		}
	}
	return s.cands[0].id // not reached: u < 1
}

// TokenProb is a token and a probability.
type TokenProb struct {
	ID   int32
	Prob float64
}

// Candidates appends the tokens that the last Sample chose among, with the probabilities that it gave them, most probable first, at most n.
func (s *Sampler) Candidates(dst []TokenProb, n int) []TokenProb {
	c := append([]candidate(nil), s.cands...)
	slices.SortFunc(c, compareLogit)
	for _, x := range c[:max(0, min(n, len(c)))] {
		dst = append(dst, TokenProb{x.id, x.weight / s.total})
	}
	return dst
}

// TopProbs appends the n most probable tokens by the model's own distribution, before bias, penalties and filters, and returns the probability of
// chosen as well (0 if it may not be sampled): what an API shows as logprobs, after math.Log. It weighs the whole vocabulary.
func (s *Sampler) TopProbs(dst []TokenProb, logits []float32, n int, chosen int32) ([]TokenProb, float64, error) {
	if len(logits) < s.vocab {
		return dst, 0, fmt.Errorf("sample: %d logits for a vocabulary of %d: %w", len(logits), s.vocab, ErrLogits)
	}
	drawn := s.cands
	s.cands = s.probs
	defer func() { s.probs, s.cands = s.cands[:0], drawn }()
	if err := s.all(logits[:s.vocab]); err != nil {
		return dst, 0, err
	}
	s.weigh(1)
	sum, own := 0.0, 0.0
	for _, c := range s.cands {
		sum += c.weight
		if c.id == chosen {
			own = c.weight
		}
	}
	heapify(s.cands, before)
	for i := 0; i < n && len(s.cands) > 0; i++ {
		top := s.cands[0]
		s.cands = pop(s.cands, before)
		dst = append(dst, TokenProb{top.id, top.weight / sum})
	}
	return dst, own / sum, nil
}
