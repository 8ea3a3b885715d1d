//go:build unix

package matmul

import (
	"encoding/binary"
	"math"
	"math/rand"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/quant"
)

// fenced copies data to memory that ends, or begins, where a page begins that can't be read: as a tensor at the end of a mapped file may.
func fenced(t *testing.T, data []byte, atEnd bool) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	n := (len(data) + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, n+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(mem)) })
	require.NoError(t, syscall.Mprotect(mem[:page], syscall.PROT_NONE))
	require.NoError(t, syscall.Mprotect(mem[page+n:], syscall.PROT_NONE))
	at := page
	if atEnd {
		at += n - len(data)
	}
	copy(mem[at:], data)
	return mem[at:][:len(data):len(data)]
}

// edgeScales are f16 bits that arithmetic treats apart but which, unlike infinities and NaN, leave the other sums of a row to be seen: zeros,
// the smallest and the largest subnormal, the smallest normal and the largest number.
var edgeScales = []uint16{0, 0x8000, 1, 0x8001, 0x03ff, 0x83ff, 0x0400, 0x7bff, 0xfbff, 0x3c00}

// TestMulAtEdges: no path reads before or behind the weights, whatever the numbers of rows and tokens and the types' blocks, and all have the
// same bits for scales at the edges of f16, -128 in Q8_0, and activations that are zero, subnormal or huge by block.
func TestMulAtEdges(t *testing.T) {
	rng := rand.New(rand.NewSource(9))
	generic, err := New(Generic)
	require.NoError(t, err)
	blockScale := []float32{0, 1, 1e-40, 1e-30, 1e30, float32(math.Copysign(0, -1))}
	for _, typ := range quantised {
		for _, rows := range []int{8, 15, 16, 17, 24, 31, 33, 47, 64, 65, 97, 129} {
			cols := max(typ.BlockElems(), 32*(1+rng.Intn(9))/typ.BlockElems()*typ.BlockElems())
			w := weights(rng, typ, rows, cols, []flavour{ordinary, extreme}[rows%2])
			for b := 0; b < len(w.Data); b += typ.BlockBytes() {
				for _, at := range scaleAt(typ) {
					binary.LittleEndian.PutUint16(w.Data[b+at:], edgeScales[rng.Intn(len(edgeScales))])
				}
				if typ == quant.Q8_0 && rng.Intn(3) == 0 {
					for i := range 32 {
						w.Data[b+2+i] = 0x80
					}
				}
			}
			for _, n := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 24, 25} {
				x := make([]float32, n*cols)
				for i := 0; i < len(x); i += 32 {
					scale := blockScale[rng.Intn(len(blockScale))]
					for j := range 32 {
						x[i+j] = scale * float32(rng.NormFloat64())
					}
				}
				var acts Acts
				acts.Reset(n, cols)
				acts.Quantize(Generic, x, cols, 0, n, 0, cols)
				want := make([]float32, n*rows)
				generic.Mul(want, rows, w, &acts, 0, rows, new(Scratch))
				for _, p := range Available() {
					k, err := New(p)
					require.NoError(t, err)
					rounded := Acts{}
					rounded.Reset(n, cols)
					rounded.Quantize(p, x, cols, 0, n, 0, cols)
					require.Equal(t, acts.blocks, rounded.blocks, "%s: rounded activations", p)
					for _, atEnd := range []bool{false, true} {
						at := w
						at.Data = fenced(t, w.Data, atEnd)
						got := make([]float32, n*rows)
						k.Mul(got, rows, at, &acts, 0, rows, new(Scratch))
						require.Equal(t, bits(want), bits(got), "%s %s %dx%d, %d rows of activations", p, typ, rows, cols, n)
					}
				}
			}
		}
	}
}
