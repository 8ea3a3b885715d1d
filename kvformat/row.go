// Package kvformat defines how rows of keys and values lie in a KV cache: the same bytes on every backend and in session
// files.
package kvformat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/minfer-go/minfer/quant"
)

// Format is a row format. The zero value is F16, the default of a cache.
type Format uint8

const (
	F16  Format = iota // 2 bytes an element, rounded to nearest, ties to even; beyond ±65504 infinite
	F32                // 4 bytes an element, exact
	Q8_0               // 34 bytes for 32 elements: scale and 32 int8
	numFormats
)

// ErrUnsupported is wrapped by errors about formats that do not exist and rows that do not fit one.
var ErrUnsupported = errors.New("unsupported KV format")

var formats = [numFormats]struct {
	name string
	t    quant.Type
}{F16: {"f16", quant.F16}, F32: {"f32", quant.F32}, Q8_0: {"q8_0", quant.Q8_0}}

// Valid reports whether f is one of the formats above.
func (f Format) Valid() bool { return f < numFormats }

func (f Format) String() string {
	if !f.Valid() {
		return fmt.Sprintf("format(%d)", uint8(f))
	}
	return formats[f].name
}

// ParseFormat finds a format by name, in any case: f32, f16, q8_0.
func ParseFormat(name string) (Format, error) {
	for f, d := range formats {
		if strings.EqualFold(name, d.name) {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("kvformat: %w: %q: want f32, f16 or q8_0", ErrUnsupported, name)
}

// Type is the tensor type of the same geometry and decoding (quant.Q8_0 rounds ties differently when it encodes). An
// invalid format gives a type that quant does not know.
func (f Format) Type() quant.Type {
	if !f.Valid() {
		return quant.Type(math.MaxUint32)
	}
	return formats[f].t
}

// FromType is the format of a tensor type.
func FromType(t quant.Type) (Format, error) {
	for f, d := range formats {
		if d.t == t {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("kvformat: %w: %s: want F32, F16 or Q8_0", ErrUnsupported, t)
}

// RowBytes is the size of a row of n elements. A head is encoded on its own, so ask for head_dim elements first:
// Q8_0 refuses what is no multiple of 32.
func (f Format) RowBytes(n int) (int, error) {
	if !f.Valid() {
		return 0, fmt.Errorf("kvformat: %w: %s", ErrUnsupported, f)
	}
	t := formats[f].t
	if n <= 0 || n > math.MaxInt/4 || n%t.BlockElems() != 0 {
		return 0, fmt.Errorf("kvformat: %w: %s rows of %d elements (head_dim) are no whole blocks of %d: choose f16 or f32",
			ErrUnsupported, f, n, t.BlockElems())
	}
	return n / t.BlockElems() * t.BlockBytes(), nil
}

// Encode writes src's row to dst, which must have exactly RowBytes(len(src)) bytes.
//
// A block of 32 elements in Q8_0 is encoded in float32 steps as: amax = max |x|; d = amax/127, stored as float16 (to nearest,
// ties to even); id = 127/amax, or 0 if amax is 0; q = roundToEven(x*id), cut to -127 … 127, stored as int8. A NaN counts as 0
// in amax and q and makes d NaN. The block is d, little-endian, then the 32 q: element i is d*q[i].
func (f Format) Encode(dst []byte, src []float32) {
	f.check(len(dst), len(src))
	switch f {
	case F16:
		for i, x := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], quant.F32ToF16(x))
		}
	case F32:
		for i, x := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
		}
	case Q8_0:
		for i := 0; i < len(src); i += 32 {
			encodeBlock(dst[i/32*34:][:34], src[i:][:32])
		}
	}
}

// Decode reads src's row, exactly RowBytes(len(dst)) bytes, to dst. Decoding is exact for every format.
func (f Format) Decode(dst []float32, src []byte) {
	f.check(len(src), len(dst))
	switch f {
	case F16:
		for i := range dst {
			dst[i] = quant.F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case Q8_0:
		for i := range dst {
			block := src[i/32*34:]
			dst[i] = quant.F16ToF32(binary.LittleEndian.Uint16(block)) * float32(int8(block[2+i%32]))
		}
	}
}

// check panics on a caller's bug: lengths that RowBytes would have refused.
func (f Format) check(bytes, elems int) {
	if elems == 0 && bytes == 0 && f.Valid() {
		return
	}
	if want, err := f.RowBytes(elems); err != nil || want != bytes {
		panic(fmt.Sprintf("kvformat: %d bytes for a row of %d elements of %s", bytes, elems, f))
	}
}

func encodeBlock(dst []byte, src []float32) {
	var amax float32
	nan := false
	for _, x := range src {
		if x != x {
			nan = true
		} else {
			amax = max(amax, float32(math.Abs(float64(x))))
		}
	}
	d, id := amax/127, float32(0)
	if amax != 0 {
		id = 127 / amax
	}
	if nan {
		d = float32(math.NaN())
	}
	binary.LittleEndian.PutUint16(dst, quant.F32ToF16(d))
	for i, x := range src {
		q := math.RoundToEven(float64(x * id))
		switch {
		case q != q: // NaN, or infinity times 0
			q = 0
		case q > 127:
			q = 127
		case q < -127:
			q = -127
		}
		dst[2+i] = byte(int8(q))
	}
}
