package quant

import (
	"errors"
	"fmt"
)

// ErrUnsupported is wrapped by errors about types that are known by name only.
var ErrUnsupported = errors.New("unsupported tensor type")

// A codec decodes and encodes whole blocks. Lengths are checked before it is called.
type codec struct {
	decode func(dst []float32, src []byte)
	encode func(dst []byte, src []float32)
}

var codecs = map[Type]codec{
	F32:  {decodeF32, encodeF32},
	F16:  {decodeF16, encodeF16},
	BF16: {decodeBF16, encodeBF16},
	Q4_0: {decodeQ4_0, encodeQ4_0},
	Q4_1: {decodeQ4_1, encodeQ4_1},
	Q5_0: {decodeQ5_0, encodeQ5_0},
	Q5_1: {decodeQ5_1, encodeQ5_1},
	Q8_0: {decodeQ8_0, encodeQ8_0},
	Q4_K: {decodeQ4_K, encodeQ4_K},
	Q5_K: {decodeQ5_K, encodeQ5_K},
	Q6_K: {decodeQ6_K, encodeQ6_K},
}

// Supported reports whether blocks of type t can be decoded and encoded.
func (t Type) Supported() bool { _, ok := codecs[t]; return ok }

// Dequantize decodes src, whole blocks of type t, to len(dst) floats. len(dst) must be a multiple of the block size and
// len(src) exactly the bytes of so many blocks. The result is the same, bit for bit, as that of ggml's reference.
func Dequantize(t Type, dst []float32, src []byte) error {
	c, err := find(t, len(dst), len(src))
	if err != nil {
		return fmt.Errorf("quant: dequantize: %w", err)
	}
	c.decode(dst, src)
	return nil
}

// Quantize encodes src as blocks of type t to dst, under the same rules of length. Q4_0 to Q8_0 give the bytes of
// ggml's reference; the K types search for scales on their own, with an error no larger. Finite input within
// float16's range is expected: what other input gives is unspecified, but never a panic.
func Quantize(t Type, dst []byte, src []float32) error {
	c, err := find(t, len(src), len(dst))
	if err != nil {
		return fmt.Errorf("quant: quantize: %w", err)
	}
	c.encode(dst, src)
	return nil
}

// find gives t's codec once the lengths fit.
func find(t Type, elems, bytes int) (codec, error) {
	c, ok := codecs[t]
	if !ok {
		return c, fmt.Errorf("%w: %s", ErrUnsupported, t)
	}
	if elems%t.BlockElems() != 0 {
		return c, fmt.Errorf("%d elements are no whole number of %s blocks of %d", elems, t, t.BlockElems())
	}
	if want := elems / t.BlockElems() * t.BlockBytes(); bytes != want {
		return c, fmt.Errorf("%d elements of %s take %d bytes, got %d", elems, t, want, bytes)
	}
	return c, nil
}
