package main

import (
	"fmt"
	"io"
	"time"

	"github.com/minfer-go/minfer/cli/bench"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
)

// profile is where the time of a model's steps went, and what the machine does at best. The zero value says nothing.
type profile struct {
	Phases    []graph.Profile `json:"phases"`
	ReadGBs   float64         `json:"limit_gb_per_second,omitempty"` // 0: not known
	Int8GMACs float64         `json:"limit_gmac_per_second,omitempty"`
}

// profileOf is nil if the model's backend times nothing. It measures the limits, which takes a moment.
func profileOf(m *engine.Model) (*profile, error) {
	b, ok := m.Backend().(graph.Profiler)
	if !ok {
		return nil, nil
	}
	phases := b.Profile()
	if phases == nil {
		return nil, nil
	}
	l, err := bench.MeasureLimits(m)
	return &profile{phases, l.ReadBytes / 1e9, l.Int8MACs / 1e9}, err
}

// print writes the tables, and what of the time in all was spent outside of what they show; all is 0 where that isn't known.
func (p *profile) print(w io.Writer, all time.Duration) error {
	if p == nil {
		return nil
	}
	if err := graph.WriteProfile(w, p.Phases, 1e9*p.ReadGBs, 1e9*p.Int8GMACs); err != nil || all == 0 {
		return err
	}
	rest := all
	for _, ph := range p.Phases {
		rest -= ph.Time
	}
	_, err := fmt.Fprintf(w, "beside these: %.3f ms of %.3f ms (making graphs, drawing tokens, text)\n", 1e3*rest.Seconds(), 1e3*all.Seconds())
	return err
}
