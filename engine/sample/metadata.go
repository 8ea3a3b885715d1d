package sample

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

const metadataPrefix = "general.sampling."

// FromMetadata overlays base with the general.sampling.* keys of kv, whose values are Go's plain types; other keys are ignored.
// Keys: temp, top_k, top_p, min_p, penalty_last_n, penalty_repeat, and sequence (sampler names separated by ";": what it leaves out is
// switched off). notices, one a line and in a fixed order, say what the file asks for that doesn't exist here. Values of the wrong type or out of
// range are errors that name the key and wrap ErrParams; the result is then base.
func FromMetadata(base Params, kv map[string]any) (p Params, notices []string, err error) {
	p = base
	for _, k := range []struct {
		name  string
		apply func(float64)
	}{
		{"temp", func(x float64) { p.Temperature = max(x, 0) }}, // negative means greedy in llama.cpp
		{"top_k", func(x float64) { p.TopK = int(max(x, 0)) }},  // negative means off
		{"top_p", func(x float64) { p.TopP = x }},
		{"min_p", func(x float64) { p.MinP = x }},
		{"penalty_last_n", func(x float64) { p.RepeatLastN = int(x) }},
		{"penalty_repeat", func(x float64) { p.RepeatPenalty = x }},
	} {
		v, ok := kv[metadataPrefix+k.name]
		if !ok {
			continue
		}
		x, err := number(v)
		if err == nil {
			k.apply(x)
			err = p.Validate()
		}
		if err != nil {
			return base, nil, fmt.Errorf("sample: %s%s: %w", metadataPrefix, k.name, err)
		}
	}
	if v, ok := kv[metadataPrefix+"sequence"]; ok {
		s, ok := v.(string)
		if !ok {
			return base, nil, fmt.Errorf("sample: %ssequence: a %T, want a string: %w", metadataPrefix, v, ErrParams)
		}
		if n := p.sequence(s); n != "" {
			notices = append(notices, n)
		}
	}
	for _, name := range []string{"mirostat", "xtc_probability"} {
		if v, ok := kv[metadataPrefix+name]; ok {
			if x, err := number(v); err != nil || x != 0 {
				notices = append(notices, fmt.Sprintf("%s%s = %v is not supported and ignored", metadataPrefix, name, v))
			}
		}
	}
	return p, notices, nil
}

// sequence switches off the samplers that a list leaves out.
func (p *Params) sequence(list string) (notice string) {
	order := []string{"penalties", "top_k", "typ_p", "top_p", "min_p", "temperature"}
	off := []func(){
		func() { p.RepeatLastN = 0 }, func() { p.TopK = 0 }, func() { p.TypicalP = 1 }, func() { p.TopP = 1 }, func() { p.MinP = 0 },
		func() { p.Temperature = 1 },
	}
	seen := make([]bool, len(order))
	last := -1
	var odd bool
	for _, name := range strings.Split(list, ";") {
		switch name = strings.TrimSpace(name); name {
		case "dry", "top_n_sigma", "xtc", "": // off by default there, absent here
			continue
		case "typical_p":
			name = "typ_p"
		}
		at := -1
		for i, o := range order {
			if o == name {
				at = i
			}
		}
		odd = odd || at <= last // unknown, out of order, or twice
		if at >= 0 {
			seen[at] = true
			last = max(last, at)
		}
	}
	if odd {
		return fmt.Sprintf("%ssequence = %.200q: only the order %s is supported; ignored", metadataPrefix, list, strings.Join(order, ";"))
	}
	for i, s := range seen {
		if !s {
			off[i]()
		}
	}
	return ""
}

// number converts a metadata value. A float32 becomes the float64 with the same shortest spelling, so that 0.6 stays 0.6.
func number(v any) (float64, error) {
	var x float64
	switch r := reflect.ValueOf(v); {
	case r.Kind() == reflect.Float32:
		x, _ = strconv.ParseFloat(strconv.FormatFloat(r.Float(), 'g', -1, 32), 64)
	case r.CanFloat():
		x = r.Float()
	case r.CanInt():
		x = float64(r.Int())
	case r.CanUint():
		x = float64(r.Uint())
	default:
		return 0, fmt.Errorf("a %T, want a number: %w", v, ErrParams)
	}
	if math.IsNaN(x) || math.Abs(x) > 1<<30 {
		return 0, fmt.Errorf("%v is out of range: %w", x, ErrParams)
	}
	return x, nil
}
