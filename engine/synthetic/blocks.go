package synthetic

import (
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"

	"github.com/minfer-go/minfer/quant"
)

func (p plan) bytes() int64 {
	n := int64(p.typ.RowBytes(p.shape[0]))
	for _, d := range p.shape[1:] {
		n *= int64(d)
	}
	return n
}

// generator makes tensor data from pools of random blocks: random numbers for every block of a large model would take minutes.
type generator struct {
	rng   *rand.Rand
	pools map[poolKey][]byte
}

type poolKey struct {
	typ   quant.Type
	sigma float64
}

const poolBytes = 4 << 20

// data reads as the tensor's bytes: its pool over and over, from a random block on.
func (g *generator) data(p plan) io.Reader {
	key := poolKey{p.typ, p.sigma}
	pool := g.pools[key]
	if pool == nil {
		pool = g.blocks(p.typ, poolBytes/p.typ.BlockBytes(), p.sigma)
		g.pools[key] = pool
	}
	at := g.rng.IntN(len(pool)/p.typ.BlockBytes()) * p.typ.BlockBytes()
	return io.LimitReader(&ring{pool: pool, at: at}, p.bytes())
}

type ring struct {
	pool []byte
	at   int
}

func (r *ring) Read(b []byte) (int, error) {
	n := copy(b, r.pool[r.at:])
	r.at = (r.at + n) % len(r.pool)
	return n, nil
}

// blocks makes n random blocks whose weights have mean about 0 and standard deviation about sigma (0: mean 1, 0.1).
func (g *generator) blocks(t quant.Type, n int, sigma float64) []byte {
	if t == quant.F32 || t == quant.F16 || t == quant.BF16 {
		return g.floats(t, n, sigma)
	}
	size := t.BlockBytes()
	b := make([]byte, n*size)
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], g.rng.Uint64())
	}
	put := func(block []byte, at int, v float64) {
		v *= 1 + 0.1*g.rng.NormFloat64()
		binary.LittleEndian.PutUint16(block[at:], quant.F32ToF16(float32(v)))
	}
	// A uniform integer of 2^k values has a standard deviation of 2^k/sqrt(12): 4.6 for 4 bits, 9.2 for 5, 18.5 for 6, 74 for 8;
	// K types multiply by scales of mean 32 (6 bits, root mean square 36) or of 8 bits (74).
	for at := 0; at < len(b); at += size {
		b := b[at:]
		switch t {
		case quant.Q4_0:
			put(b, 0, sigma/4.6)
		case quant.Q4_1:
			put(b, 0, sigma/4.6)
			put(b, 2, -7.5*sigma/4.6)
		case quant.Q5_0:
			put(b, 0, sigma/9.2)
		case quant.Q5_1:
			put(b, 0, sigma/9.2)
			put(b, 2, -15.5*sigma/9.2)
		case quant.Q8_0:
			put(b, 0, sigma/74)
		case quant.Q4_K:
			put(b, 0, sigma/4.6/36)
			put(b, 2, 7.5*sigma/4.6/36)
		case quant.Q5_K:
			put(b, 0, sigma/9.2/36)
			put(b, 2, 15.5*sigma/9.2/36)
		case quant.Q6_K:
			put(b, 208, sigma/18.5/74)
		}
	}
	return b
}

func (g *generator) floats(t quant.Type, n int, sigma float64) []byte {
	b := make([]byte, 0, n*t.BlockBytes())
	for range n {
		v := sigma * g.rng.NormFloat64()
		if sigma == 0 {
			v = 1 + 0.1*g.rng.NormFloat64()
		}
		switch f := float32(v); t {
		case quant.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		case quant.F16:
			b = binary.LittleEndian.AppendUint16(b, quant.F32ToF16(f))
		case quant.BF16:
			b = binary.LittleEndian.AppendUint16(b, quant.F32ToBF16(f))
		}
	}
	return b
}
