package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/minfer-go/minfer/quant"
)

// scaleFields says where a block has its float16 scales: these are made finite, all other bytes are random.
var scaleFields = map[quant.Type][]int{
	quant.Q4_0: {0}, quant.Q4_1: {0, 2}, quant.Q5_0: {0}, quant.Q5_1: {0, 2}, quant.Q8_0: {0}, quant.Q4_K: {0, 2}, quant.Q5_K: {0, 2}, quant.Q6_K: {208},
}

var quantised = []quant.Type{quant.Q4_0, quant.Q4_1, quant.Q5_0, quant.Q5_1, quant.Q8_0, quant.Q4_K, quant.Q5_K, quant.Q6_K}

var floats = []quant.Type{quant.F32, quant.F16, quant.BF16}

// randomWeight makes a weight's file bytes.
func randomWeight(rng *rand.Rand, t quant.Type, rows, k int) []byte {
	size := t.RowBytes(k)
	w := make([]byte, rows*size)
	fields, ok := scaleFields[t]
	if !ok {
		x := randomRows(rng, rows*k)
		for i := range x {
			x[i] *= 0.05
		}
		if err := quant.Quantize(t, w, x); err != nil {
			panic(err)
		}
		return w
	}
	for i := range w {
		w[i] = byte(rng.Uint32())
	}
	for at := 0; at < len(w); at += t.BlockBytes() {
		for _, f := range fields {
			binary.LittleEndian.PutUint16(w[at+f:], quant.F32ToF16(float32(rng.NormFloat64()*0.01)))
		}
	}
	return w
}

// randomRows makes activations: normal, with a run of zeros and a few large ones.
func randomRows(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		if rng.IntN(500) == 0 {
			x[i] *= 40
		}
	}
	for i := n / 3 / 32 * 32; i < min(n, n/3/32*32+32); i++ {
		x[i] = 0
	}
	return x
}

// padRows gives each row's start a multiple of 16.
func padRows(w []byte, rows int) []byte {
	size := len(w) / rows
	stride := (size + 15) &^ 15
	out := make([]byte, rows*stride)
	for r := range rows {
		copy(out[r*stride:], w[r*size:][:size])
	}
	return out
}

// decode widens a whole weight.
func decode(t quant.Type, w []byte, n int) []float32 {
	x := make([]float32, n)
	if err := quant.Dequantize(t, x, w); err != nil {
		panic(err)
	}
	return x
}

type record struct {
	D      float32
	S0, S1 int16
}

// roundQ8 is ADR 0001's rounding of activations.
func roundQ8(x []float32) (q []int8, records []record) {
	q, records = make([]int8, len(x)), make([]record, len(x)/32)
	for b := range records {
		v := x[32*b:][:32]
		top := uint32(0)
		for _, f := range v {
			top = max(top, math.Float32bits(f)&^(1<<31))
		}
		amax := math.Float32frombits(top)
		id := float32(0)
		if amax != 0 {
			id = 127 / amax
		}
		r := &records[b]
		r.D = amax / 127
		for i, f := range v {
			y := float32(f * id)
			switch {
			case y != y:
				y = 0
			case y > 127:
				y = 127
			case y < -127:
				y = -127
			}
			n := int8(math.RoundToEven(float64(y)))
			q[32*b+i] = n
			if i < 16 {
				r.S0 += int16(n)
			} else {
				r.S1 += int16(n)
			}
		}
	}
	return q, records
}

// rounded is what rounded activations stand for.
func rounded(q []int8, records []record) []float64 {
	x := make([]float64, len(q))
	for i := range x {
		x[i] = float64(records[i/32].D) * float64(q[i])
	}
	return x
}

// wide is float32 in float64.
func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

// product is y[c][r] = sum of w[r][i]*x[c][i], and the sum of magnitudes that errors are measured by.
func product(w []float32, x []float64, rows, k, columns int) (y, magnitude []float64) {
	y, magnitude = make([]float64, columns*rows), make([]float64, columns*rows)
	for r := range rows {
		wr := w[r*k:][:k]
		for c := range columns {
			xc := x[c*k:][:k]
			sum, abs := 0.0, 0.0
			for i, v := range wr {
				p := float64(v) * xc[i]
				sum += p
				abs += math.Abs(p)
			}
			y[c*rows+r], magnitude[c*rows+r] = sum, abs
		}
	}
	return y, magnitude
}

// near compares rows of got, stride apart, with want: each value to within rel of its magnitude.
func near(got []float32, stride int, want, magnitude []float64, rows, columns int, rel float64) error {
	worst := 0.0
	for c := range columns {
		for r := range rows {
			g, w, m := float64(got[c*stride+r]), want[c*rows+r], magnitude[c*rows+r]
			e := math.Abs(g-w) / max(m, 1e-30)
			if !(e <= rel) {
				return fmt.Errorf("row %d of column %d: %g, want %g (%.2g of its terms' magnitude %g, may be %g)", r, c, g, w, e, m, rel)
			}
			worst = max(worst, e)
		}
	}
	return nil
}

// same compares bits.
func same[T comparable](what string, got, want []T) error {
	if len(got) != len(want) {
		return fmt.Errorf("%s: %d values instead of %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			return fmt.Errorf("%s: value %d of %d is %v, want %v", what, i, len(got), got[i], want[i])
		}
	}
	return nil
}

func bits(x []float32) []uint32 { return valuesOf[uint32](bytesOf(x)) }

// dense takes rows that are stride apart together, and checks that nothing was written between them.
func dense(x []float32, stride, rows, columns int) ([]float32, error) {
	out := make([]float32, 0, rows*columns)
	for c := range columns {
		out = append(out, x[c*stride:][:rows]...)
		for _, v := range x[c*stride+rows : min((c+1)*stride, len(x))] {
			if math.Float32bits(v) != 0xa5a5a5a5 {
				return nil, fmt.Errorf("column %d: written beyond its %d rows", c, rows)
			}
		}
	}
	return out, nil
}
