package graph

import (
	"errors"
	"fmt"
	"math"

	"github.com/minfer-go/minfer/quant"
)

// maxElems bounds every tensor, so that sizes in bytes cannot overflow.
const maxElems = 1 << 40

// Validate reports what is wrong with p, or nil. Outputs may be 0: a step whose logits nobody wants.
func (p Params) Validate() error {
	for _, f := range []struct {
		name   string
		v, min int
	}{{"Rows", p.Rows, 1}, {"Outputs", p.Outputs, 0}, {"Seqs", p.Seqs, 1}, {"Runs", p.Runs, 1}, {"Cells", p.Cells, 1}} {
		if f.v < f.min || f.v > math.MaxInt32 {
			return fmt.Errorf("graph: params: %s is %d, want %d to %d", f.name, f.v, f.min, math.MaxInt32)
		}
	}
	for _, t := range []quant.Type{p.KeyType, p.ValueType} {
		if !kvFormat(t) {
			return fmt.Errorf("graph: params: KV format %s: want F32, F16 or Q8_0: %w", t, ErrUnsupported)
		}
	}
	return nil
}

// kvFormat reports whether KV rows can be of a type.
func kvFormat(t quant.Type) bool { return t == quant.F32 || t == quant.F16 || t == quant.Q8_0 }

func (p Params) kvType(a KVAttr) quant.Type {
	if a.Value {
		return p.ValueType
	}
	return p.KeyType
}

func (n *Node) haveRows(rows int) error {
	if n.Shape[0] != rows {
		return fmt.Errorf("operand %q is %s, want the step's %d rows", n.Name, n.Shape, rows)
	}
	return nil
}

func f32(n *Node) error {
	if n.Type != quant.F32 || n.Op.InRegion() {
		return fmt.Errorf("operand %q is %s %s, want an F32 activation", n.Name, n.Op, n.Type)
	}
	return nil
}

func input(n *Node, in Input) error {
	if n.Op != OpInput || n.Attr != (InputAttr{in}) {
		return fmt.Errorf("operand %q is not the step input %s", n.Name, in)
	}
	return nil
}

func dims(s Shape) error {
	if len(s) == 0 {
		return errors.New("a tensor needs at least one dimension")
	}
	n := 1
	for _, d := range s {
		if d <= 0 || d > maxElems/n {
			return fmt.Errorf("shape %s has a dimension below 1 or more than 2^40 elements", s)
		}
		n *= d
	}
	return nil
}

func (w *Weight) check() error {
	if w == nil {
		return errors.New("weight is nil")
	}
	if err := dims(w.Shape); err != nil {
		return fmt.Errorf("weight %q: %w", w.Name, err)
	}
	if !w.Type.Known() {
		return fmt.Errorf("weight %q: %s is no known type: %w", w.Name, w.Type, ErrUnsupported)
	}
	if last := w.Shape[len(w.Shape)-1]; last%w.Type.BlockElems() != 0 {
		return fmt.Errorf("weight %q: rows of %d elements are no whole blocks of %s", w.Name, last, w.Type)
	}
	return nil
}

func matrix(w *Weight) error {
	if err := w.check(); err != nil {
		return err
	}
	if len(w.Shape) != 2 {
		return fmt.Errorf("weight %q is %s, want [rows cols]", w.Name, w.Shape)
	}
	return nil
}

func vector(w *Weight, n int) error {
	if err := w.check(); err != nil {
		return err
	}
	if w.Type != quant.F32 || len(w.Shape) != 1 || w.Shape[0] != n {
		return fmt.Errorf("weight %q is %s %s, want F32 [%d]", w.Name, w.Type, w.Shape, n)
	}
	return nil
}

func norm(x *Node, w *Weight, eps float32) error {
	if !(eps >= 0) || math.IsInf(float64(eps), 0) {
		return fmt.Errorf("eps %v is not a number from 0 on", eps)
	}
	if err := f32(x); err != nil {
		return err
	}
	return vector(w, x.Shape[len(x.Shape)-1])
}

func (a RopeAttr) check(headDim int) error {
	switch {
	case a.Style != RopeNeox && a.Style != RopeInterleaved:
		return fmt.Errorf("rope style %d is unknown: %w", a.Style, ErrUnsupported)
	case a.Dims <= 0 || a.Dims%2 != 0 || a.Dims > headDim:
		return fmt.Errorf("rope over %d elements: want an even number up to head_dim %d", a.Dims, headDim)
	}
	for _, f := range []struct {
		name string
		v    float32
		ok   bool
	}{
		{"Base", a.Base, a.Base > 1}, {"FreqScale", a.FreqScale, a.FreqScale > 0}, {"AttnFactor", a.AttnFactor, a.AttnFactor > 0},
		{"ExtFactor", a.ExtFactor, a.ExtFactor >= 0},
		{"BetaFast", a.BetaFast, a.ExtFactor == 0 || a.BetaFast > 0}, {"BetaSlow", a.BetaSlow, a.ExtFactor == 0 || a.BetaSlow > 0},
	} {
		if !f.ok || math.IsInf(float64(f.v), 0) {
			return fmt.Errorf("rope %s %v is out of range", f.name, f.v)
		}
	}
	if a.ExtFactor != 0 && a.OrigCtx <= 0 {
		return fmt.Errorf("rope OrigCtx %d: YaRN needs the context length of training", a.OrigCtx)
	}
	return nil
}
