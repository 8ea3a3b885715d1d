package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type plainToken struct {
	id    int32
	logit float64
}

func plainProbs(c []plainToken, temperature float64) []float64 {
	top, sum := math.Inf(-1), 0.0
	for _, x := range c {
		top = max(top, x.logit)
	}
	p := make([]float64, len(c))
	for i, x := range c {
		p[i] = math.Exp((x.logit - top) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// plainDistribution is the chain of llama.cpp written down plainly: everything sorted, every filter on its own.
func plainDistribution(p Params, logits []float32, accepted []int32) map[int32]float64 {
	if n := p.RepeatLastN; n >= 0 && len(accepted) > n {
		accepted = accepted[len(accepted)-n:]
	}
	seen := map[int32]int{}
	for _, id := range accepted {
		seen[id]++
	}
	var c []plainToken
	for i, l := range logits {
		id, x := int32(i), float64(l)
		x = float64(float32(x + p.LogitBias[id]))
		if n := seen[id]; n > 0 && p.penalises() {
			if r := p.RepeatPenalty; r != 0 && x <= 0 {
				x *= r
			} else if r != 0 {
				x /= r
			}
			x = float64(float32(x - float64(n)*p.FrequencyPenalty - p.PresencePenalty))
		}
		banned := slices.ContainsFunc(p.Banned, func(r Range) bool { return id >= r.From && id < r.To })
		if !banned && !math.IsInf(x, -1) {
			c = append(c, plainToken{id, x})
		}
	}
	byLogit := func() {
		sort.Slice(c, func(i, j int) bool { return c[i].logit > c[j].logit || c[i].logit == c[j].logit && c[i].id < c[j].id })
	}
	byLogit()
	if p.TopK > 0 && p.TopK < len(c) {
		c = c[:p.TopK]
	}
	if p.TypicalP > 0 && p.TypicalP < 1 {
		prob, entropy := plainProbs(c, 1), 0.0
		for _, x := range prob {
			if x > 0 {
				entropy -= x * math.Log(x)
			}
		}
		order := make([]int, len(c))
		for i := range order {
			order[i] = i
		}
		// The distance from the entropy, from logarithms of sums rather than of probabilities, which may be 0.
		sum := 0.0
		for _, x := range c {
			sum += math.Exp(x.logit - c[0].logit)
		}
		score := func(i int) float64 { return math.Abs(math.Log(sum) - (c[i].logit - c[0].logit) - entropy) }
		sort.SliceStable(order, func(i, j int) bool { return score(order[i]) < score(order[j]) })
		var kept []plainToken
		cum := 0.0
		for _, i := range order {
			kept = append(kept, c[i])
			if cum += prob[i]; cum > p.TypicalP {
				break
			}
		}
		c = kept
		byLogit()
	}
	if p.TopP < 1 {
		cum := 0.0
		for i, x := range plainProbs(c, 1) {
			if cum += x; cum >= p.TopP {
				c = c[:i+1]
				break
			}
		}
	}
	if p.MinP > 0 {
		least := c[0].logit + math.Log(p.MinP)
		c = slices.DeleteFunc(c, func(x plainToken) bool { return x.logit < least })
	}
	if p.Temperature == 0 {
		return map[int32]float64{c[0].id: 1}
	}
	out := map[int32]float64{}
	for i, x := range plainProbs(c, p.Temperature) {
		out[c[i].id] = x
	}
	return out
}

func randomLogits(r *rand.Rand, n int) []float32 {
	l := make([]float32, n)
	for i := range l {
		l[i] = float32(r.NormFloat64() * 3)
		switch r.IntN(12) {
		case 0:
			l[i] = float32(math.Inf(-1))
		case 1:
			l[i] = float32(r.IntN(4)) // ties
		}
	}
	l[r.IntN(n)] = 1
	return l
}

func TestFiltersAsPlainlyWritten(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	one := func(p Params) []Params {
		out := []Params{p}
		for _, k := range []int{1, 2, 7, 40, 1000} {
			q := p
			q.TopK = k
			out = append(out, q)
		}
		return out
	}
	off := Params{Temperature: 1, TopP: 1}
	var all []Params
	for _, x := range []float64{0, 0.05, 0.3, 0.7311, 0.95, 0.999} {
		p, m, y, temp := off, off, off, off
		p.TopP, m.MinP, y.TypicalP, temp.Temperature = x, x, x, x*2
		all = append(append(append(append(all, one(p)...), one(m)...), one(y)...), one(temp)...)
	}
	pen := off
	pen.RepeatLastN, pen.RepeatPenalty, pen.FrequencyPenalty, pen.PresencePenalty = 5, 1.3, 0.2, 0.4
	everything := Params{Temperature: 0.7, TopK: 30, TypicalP: 0.9, TopP: 0.8, MinP: 0.1, RepeatPenalty: 1.2, FrequencyPenalty: 0.1, PresencePenalty: 0.3,
		RepeatLastN: -1, LogitBias: map[int32]float64{1: 4, 3: math.Inf(-1), 5: -2.5}, Banned: []Range{{50, 60}, {0, 1}, {55, 62}}}
	unsorted := everything
	unsorted.TopK = 0
	greedy := everything
	greedy.Temperature, greedy.TypicalP = 0, 0
	typicalGreedy := everything
	typicalGreedy.Temperature = 0
	all = append(all, Default(), pen, everything, unsorted, greedy, typicalGreedy, Params{})
	for _, p := range all {
		for range 25 {
			n := 63 + r.IntN(60)
			logits := randomLogits(r, n)
			s, err := New(p, n)
			require.NoError(t, err)
			var accepted []int32
			for range r.IntN(20) {
				id := int32(r.IntN(n))
				accepted = append(accepted, id)
				s.Accept(id)
			}
			before := slices.Clone(logits)
			id, err := s.Sample(logits)
			require.NoError(t, err)
			require.Equal(t, before, logits, "logits are restored")
			want := plainDistribution(p, logits, accepted)
			got := map[int32]float64{}
			for _, c := range s.Candidates(nil, n) {
				got[c.ID] = c.Prob
			}
			require.InDeltaMapValues(t, want, got, 1e-12, "%+v", p)
			require.Contains(t, want, id)
		}
	}
}

func TestDistribution(t *testing.T) {
	logits := []float32{1, 2, 0, 3, -1, 2.5, 0.5, 2}
	p := Params{Temperature: 0.8, TopP: 0.95, MinP: 0.05, Seed: 42}
	for _, p.TopK = range []int{0, 6} {
		s, err := New(p, len(logits))
		require.NoError(t, err)
		const n = 200000
		counts := make([]float64, len(logits))
		for range n {
			id, err := s.Sample(logits)
			require.NoError(t, err)
			counts[id]++
		}
		want, chi := plainDistribution(p, logits, nil), 0.0
		for id, c := range counts {
			e := want[int32(id)] * n
			if e == 0 {
				require.Zero(t, c)
				continue
			}
			chi += (c - e) * (c - e) / e
		}
		assert.Less(t, chi, 24.3, "chi-square, 7 degrees of freedom at most: 0.1 %%")
	}
}

// The tokens of a seed are part of what users see: they must not change with the machine or by accident.
func TestSeedGivesTheseTokens(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	logits := make([]float32, 1000)
	for i := range logits {
		logits[i] = float32(r.IntN(4000)-2000) / 256
	}
	draw := func(p Params) (ids []int32) {
		s, err := New(p, len(logits))
		require.NoError(t, err)
		for range 12 {
			id, err := s.Sample(logits)
			require.NoError(t, err)
			s.Accept(id)
			ids = append(ids, id)
		}
		return ids
	}
	p := Default()
	p.Seed, p.Temperature, p.TopP = 7, 1.5, 1
	assert.Equal(t, draw(p), draw(p))
	seven := []int32{93, 802, 966, 108, 760, 482, 634, 934, 199, 505, 915, 813}
	assert.Equal(t, seven, draw(p))
	p.Seed = 8
	assert.NotEqual(t, seven, draw(p))
}

func TestExp(t *testing.T) {
	for x := 0.0; x > -700; x -= 0.0137 {
		require.InEpsilon(t, math.Exp(x), exp(x), 5e-16, x)
	}
	assert.Equal(t, 1.0, exp(0))
	assert.Zero(t, exp(-1e9))
	assert.Equal(t, uint64(0x3fd78b56362cef38), math.Float64bits(exp(-1)))
}

func TestBadLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, p := range []Params{{}, Default(), {Temperature: 1, TopP: 1}} {
		s, err := New(p, 3)
		require.NoError(t, err)
		for _, l := range [][]float32{{0, 1}, {0, nan, 1}, {1, 0, nan}, {inf, 0, 0}, {-inf, -inf, -inf}, nil} {
			_, err := s.Sample(l)
			assert.ErrorIs(t, err, ErrLogits, "%v %v", p, l)
			_, _, err = s.TopProbs(nil, l, 1, 0)
			assert.ErrorIs(t, err, ErrLogits, "%v %v", p, l)
		}
		id, err := s.Sample([]float32{-inf, 0, -inf, nan, inf})
		require.NoError(t, err, "rows beyond the vocabulary don't count")
		assert.Equal(t, int32(1), id)
	}
	s, err := New(Params{Banned: []Range{{0, 1}, {2, 9}}}, 3)
	require.NoError(t, err)
	id, err := s.Sample([]float32{nan, -5, inf})
	require.NoError(t, err, "nor do banned ones")
	assert.Equal(t, int32(1), id)
}

func TestGreedyTakesTheLowerOfEquals(t *testing.T) {
	s, err := New(Params{}, 5)
	require.NoError(t, err)
	id, err := s.Sample([]float32{1, 3, 2, 3, 3})
	require.NoError(t, err)
	assert.Equal(t, int32(1), id)
}

func TestValidate(t *testing.T) {
	require.NoError(t, Params{}.Validate())
	require.NoError(t, Default().Validate())
	for _, p := range []Params{{Temperature: -1}, {Temperature: math.NaN()}, {TopK: -1}, {TopP: 1.1}, {TopP: math.NaN()}, {MinP: -0.1}, {TypicalP: 2}, {RepeatPenalty: -1},
		{FrequencyPenalty: math.Inf(1)}, {PresencePenalty: math.NaN()}, {RepeatLastN: -2}, {LogitBias: map[int32]float64{1: math.NaN()}},
		{LogitBias: map[int32]float64{-1: 0}}, {Banned: []Range{{3, 2}}}, {Banned: []Range{{0, 10}}}, {LogitBias: map[int32]float64{10: 1}}} {
		_, err := New(p, 10)
		assert.ErrorIs(t, err, ErrParams, "%+v", p)
	}
	_, err := New(Params{}, 0)
	assert.ErrorIs(t, err, ErrParams)
}

func TestTopProbs(t *testing.T) {
	p := Default()
	p.Banned = []Range{{4, 5}}
	s, err := New(p, 5)
	require.NoError(t, err)
	logits := []float32{0, 2, 1, 2, 9}
	_, err = s.Sample(logits)
	require.NoError(t, err)
	chosen := s.Candidates(nil, 9)
	top, own, err := s.TopProbs(nil, logits, 3, 2)
	require.NoError(t, err)
	sum := 1 + 2*math.Exp(2) + math.E
	require.Len(t, top, 3)
	for i, id := range []int32{1, 3, 2} {
		assert.Equal(t, id, top[i].ID)
		assert.InDelta(t, math.Exp(float64(logits[id]))/sum, top[i].Prob, 1e-12)
	}
	assert.Equal(t, top[2].Prob, own)
	assert.Equal(t, chosen, s.Candidates(nil, 9), "the draw's candidates are left alone")
}

func TestFromMetadata(t *testing.T) {
	p, notices, err := FromMetadata(Default(), map[string]any{"general.sampling.temp": float32(0.6), "general.sampling.top_k": uint32(20), "general.sampling.top_p": float32(0.8),
		"general.sampling.min_p": float32(0), "general.sampling.penalty_repeat": float32(1.05), "general.sampling.penalty_last_n": int32(-1), "general.name": "x"})
	require.NoError(t, err)
	assert.Empty(t, notices)
	want := Default()
	want.Temperature, want.TopK, want.TopP, want.MinP, want.RepeatPenalty, want.RepeatLastN = 0.6, 20, 0.8, 0, 1.05, -1
	assert.Equal(t, want, p)

	p, notices, err = FromMetadata(Default(), map[string]any{"general.sampling.sequence": "penalties;dry;top_k;top_p;temperature", "general.sampling.mirostat": int32(2)})
	require.NoError(t, err)
	assert.Equal(t, []string{"general.sampling.mirostat = 2 is not supported and ignored"}, notices)
	want = Default()
	want.MinP = 0
	assert.Equal(t, want, p)

	p, notices, err = FromMetadata(Default(), map[string]any{"general.sampling.sequence": "temperature;top_k"})
	require.NoError(t, err)
	assert.Len(t, notices, 1)
	assert.Equal(t, Default(), p)

	for key, v := range map[string]any{"temp": "hot", "top_p": float32(2), "min_p": math.NaN(), "top_k": math.Inf(1), "penalty_last_n": int64(-7), "sequence": 3, "penalty_repeat": true} {
		p, _, err := FromMetadata(Default(), map[string]any{"general.sampling." + key: v})
		require.ErrorIs(t, err, ErrParams, key)
		assert.Contains(t, err.Error(), "general.sampling."+key)
		assert.Equal(t, Default(), p)
	}
}

func vocabLogits() []float32 {
	r := rand.New(rand.NewPCG(3, 3))
	l := make([]float32, 151936)
	for i := range l {
		l[i] = float32(r.NormFloat64() * 2.5)
	}
	return l
}

func benchParams() map[string]Params {
	pen, noK, typ := Default(), Default(), Default()
	pen.RepeatPenalty, pen.FrequencyPenalty = 1.1, 0.1
	noK.TopK = 0
	typ.TopK, typ.TypicalP = 0, 0.5
	return map[string]Params{"default": Default(), "greedy": {}, "penalties": pen, "no-top-k": noK, "typical-no-top-k": typ, "pure": {Temperature: 1, TopP: 1}}
}

func TestNoAllocations(t *testing.T) {
	logits := vocabLogits()
	for name, p := range benchParams() {
		s, err := New(p, len(logits))
		require.NoError(t, err)
		step := func() {
			id, _ := s.Sample(logits)
			s.Accept(id)
		}
		for range 70 {
			step()
			if p.TopK == 0 && p.Temperature > 0 {
				break
			}
		}
		if p.TopK == 0 && p.Temperature > 0 {
			step()
		}
		assert.Zero(t, testing.AllocsPerRun(5, step), name)
	}
}

func BenchmarkSample(b *testing.B) {
	logits := vocabLogits()
	for name, p := range benchParams() {
		b.Run(fmt.Sprintf("%s-%d", name, len(logits)), func(b *testing.B) {
			s, err := New(p, len(logits))
			require.NoError(b, err)
			for b.Loop() {
				id, _ := s.Sample(logits)
				s.Accept(id)
			}
		})
	}
}
