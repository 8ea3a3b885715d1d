package matmul

import (
	"encoding/binary"
	"math"

	"github.com/minfer-go/minfer/backend-cpu/internal/f32"
	"github.com/minfer-go/minfer/quant"
)

// mulGeneric takes a weight row apart once and multiplies it with every activation row.
func mulGeneric(dst []float32, stride int, w Weight, a *Acts, o0, o1 int, s *Scratch) {
	nb := a.k / blockLen
	for o := o0; o < o1; o++ {
		s.row.decode(w.Type, w.row(o), w.Cols)
		for r := range a.rows {
			x := a.blocks[r*nb:][:nb]
			switch {
			case w.Type == quant.Q6_K:
				dst[r*stride+o] = s.row.dotHalves(x)
			case hasMin(w.Type):
				dst[r*stride+o] = s.row.dotMin(x)
			default:
				dst[r*stride+o] = s.row.dot(x)
			}
		}
	}
}

func (l *levels) dot(x []block) (acc float32) {
	for b := range x {
		lo, hi := intDot(l.q[b*blockLen:][:blockLen], &x[b].q)
		acc = f32.FMA(float32(l.dw[b]*x[b].d), float32(lo+hi), acc)
	}
	return acc
}

func (l *levels) dotMin(x []block) (acc float32) {
	for b := range x {
		lo, hi := intDot(l.q[b*blockLen:][:blockLen], &x[b].q)
		acc = f32.FMA(float32(l.dw[b]*x[b].d), float32(lo+hi), acc)
		acc = f32.FMA(l.m[b], x[b].ds, acc)
	}
	return acc
}

func (l *levels) dotHalves(x []block) (acc float32) {
	for b := range x {
		lo, hi := intDot(l.q[b*blockLen:][:blockLen], &x[b].q)
		acc = f32.FMA(float32(l.dw[2*b]*x[b].d), float32(lo), acc)
		acc = f32.FMA(float32(l.dw[2*b+1]*x[b].d), float32(hi), acc)
	}
	return acc
}

// intDot gives the exact sums of the products of the first and of the last 16 levels.
func intDot(w []int8, x *[blockLen]int8) (lo, hi int32) {
	w = w[:blockLen]
	for i := 0; i < 16; i++ {
		lo += int32(w[i]) * int32(x[i])
		hi += int32(w[i+16]) * int32(x[i+16])
	}
	return lo, hi
}

func mulFloatGeneric(dst []float32, stride int, w Weight, x []float32, xStride, rows, o0, o1 int) {
	for o := o0; o < o1; o++ {
		row := w.row(o)
		for r := range rows {
			dst[r*stride+o] = floatDot(w.Type, row, x[r*xStride:][:w.Cols])
		}
	}
}

func floatDot(t quant.Type, row []byte, x []float32) float32 {
	var acc [16]float32
	for k, v := range x {
		var f float32
		switch t {
		case quant.F32:
			f = math.Float32frombits(binary.LittleEndian.Uint32(row[4*k:]))
		case quant.F16:
			f = quant.F16ToF32(binary.LittleEndian.Uint16(row[2*k:]))
		default:
			f = quant.BF16ToF32(binary.LittleEndian.Uint16(row[2*k:]))
		}
		acc[k%16] = f32.FMA(f, v, acc[k%16])
	}
	return f32.Reduce16(&acc)
}
