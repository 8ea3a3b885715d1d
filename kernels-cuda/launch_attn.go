package kernelscuda

import (
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/cudart"
)

const (
	attnChunk  = 128 // positions of a chunk, counted from a sequence's start (kChunk in cu/attn.cuh)
	attnHeads  = 8   // query heads of a block
	attnMaxDim = 256 // of the split form
	attnWaves  = 2   // blocks a multiprocessor that the split form aims at

	prefillQueries = 128 // of a block
)

// chunks is how many chunks of a row there is scratch for.
func (p *AttnParams) chunks() int { return ceil(int(p.Cells), attnChunk) }

// groups is the number of blocks that share a row's heads: those of one KV head, eight at a time.
func (p *AttnParams) groups() int {
	return int(p.KvHeads) * ceil(int(p.Heads)/int(p.KvHeads), attnHeads)
}

// Scratch is how much memory the split form needs, in bytes: Parts, States, Counters. Counters, if they are used, are zeroed once; every
// launch leaves them so.
func (p *AttnParams) Scratch() (parts, states, counters int64) {
	n := int64(p.Rows) * int64(p.Heads) * int64(p.chunks())
	return 4 * n * int64(p.HeadDim), 8 * n, 4 * int64(p.Rows) * int64(p.groups())
}

// splits is how many blocks share a row and group's chunks.
func (p *AttnParams) splits(dev *cudart.DeviceInfo) int {
	others := max(1, int(p.Rows)*p.groups())
	return max(1, min(p.chunks(), ceil(attnWaves*dev.Multiprocessors, others)))
}

func (p *AttnParams) check() error {
	switch {
	case p.Rows < 0 || p.Heads <= 0 || p.KvHeads <= 0 || p.Heads%p.KvHeads != 0 || p.Heads > gridLimit:
		return shape("%d rows of %d heads over %d KV heads", p.Rows, p.Heads, p.KvHeads)
	case p.Cells <= 0:
		return shape("%d cells", p.Cells)
	case p.Q8 != 0 && p.HeadDim%32 != 0:
		return shape("heads of %d, no multiple of 32, have no 8-bit form", p.HeadDim)
	}
	if err := region(p.KeyType, p.KvHeads, p.HeadDim, p.KeyRow); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := region(p.ValueType, p.KvHeads, p.HeadDim, p.ValueRow); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	return nil
}

func (p *AttnParams) config(id ID, dev *cudart.DeviceInfo) (cudart.LaunchConfig, error) {
	if err := p.check(); err != nil {
		return cudart.LaunchConfig{}, err
	}
	threads := 256
	switch id {
	case KernelAttnReferenceF32:
		if p.Rows > gridLimit || p.Q8 != 0 || p.Y == 0 {
			return cudart.LaunchConfig{}, shape("%d rows, or a result in 8 bits", p.Rows)
		}
		return grid(int(p.Heads), int(p.Rows), 32), nil
	case KernelAttnCombineF32:
		if p.Rows > gridLimit || p.HeadDim > attnMaxDim || p.HeadDim%8 != 0 {
			return cudart.LaunchConfig{}, shape("%d rows, heads of %d", p.Rows, p.HeadDim)
		}
		return grid(int(p.Heads), int(p.Rows), 256), nil
	case KernelAttnDecodeF32:
		if p.HeadDim > attnMaxDim || p.HeadDim%8 != 0 {
			return cudart.LaunchConfig{}, shape("heads of %d: want a multiple of 8 up to %d", p.HeadDim, attnMaxDim)
		}
	case KernelAttnPrefillF16F16D64, KernelAttnPrefillF16Q8D64, KernelAttnPrefillQ8F16D64, KernelAttnPrefillQ8Q8D64, KernelAttnPrefillF16F16D80,
		KernelAttnPrefillF16F16D96, KernelAttnPrefillF16F16D128, KernelAttnPrefillF16Q8D128, KernelAttnPrefillQ8F16D128, KernelAttnPrefillQ8Q8D128:
		if prefillForms[id] != p.form() {
			return cudart.LaunchConfig{}, shape("KV formats %d and %d with heads of %d", p.KeyType, p.ValueType, p.HeadDim)
		}
		if p.Q8 != 0 || p.Y == 0 || p.KvHeads > gridLimit {
			return cudart.LaunchConfig{}, shape("a result in 8 bits, or over %d KV heads", p.KvHeads)
		}
		cfg := grid(ceil(int(p.Rows)*int(p.Heads/p.KvHeads), prefillQueries), int(p.KvHeads), 256)
		cfg.SharedBytes = uint32(table[id].shared)
		return cfg, nil
	default:
		form, ok := decodeForms[id]
		if !ok || form != p.form() {
			return cudart.LaunchConfig{}, shape("KV formats %d and %d with heads of %d", p.KeyType, p.ValueType, p.HeadDim)
		}
		threads = 2 * int(p.HeadDim)
	}
	if p.Rows > gridLimit || p.groups() > gridLimit {
		return cudart.LaunchConfig{}, shape("%d rows of %d groups of heads", p.Rows, p.groups())
	}
	cfg := grid(p.splits(dev), p.groups(), threads)
	cfg.GridZ = uint32(p.Rows)
	return cfg, nil
}

// attnForm is what the tensor-core kernels are made for, each for one.
type attnForm struct{ key, value, headDim int32 }

func (p *AttnParams) form() attnForm { return attnForm{p.KeyType, p.ValueType, p.HeadDim} }

var prefillForms = map[ID]attnForm{
	KernelAttnPrefillF16F16D64: {KVF16, KVF16, 64}, KernelAttnPrefillF16F16D128: {KVF16, KVF16, 128},
	KernelAttnPrefillF16Q8D64: {KVF16, KVQ8, 64}, KernelAttnPrefillF16Q8D128: {KVF16, KVQ8, 128},
	KernelAttnPrefillQ8F16D64: {KVQ8, KVF16, 64}, KernelAttnPrefillQ8F16D128: {KVQ8, KVF16, 128},
	KernelAttnPrefillQ8Q8D64: {KVQ8, KVQ8, 64}, KernelAttnPrefillQ8Q8D128: {KVQ8, KVQ8, 128},
	KernelAttnPrefillF16F16D80: {KVF16, KVF16, 80}, KernelAttnPrefillF16F16D96: {KVF16, KVF16, 96},
}

var decodeForms = map[ID]attnForm{
	KernelAttnDecodeF16F16D64: {KVF16, KVF16, 64}, KernelAttnDecodeF16F16D128: {KVF16, KVF16, 128},
	KernelAttnDecodeF16Q8D64: {KVF16, KVQ8, 64}, KernelAttnDecodeF16Q8D128: {KVF16, KVQ8, 128},
	KernelAttnDecodeQ8F16D64: {KVQ8, KVF16, 64}, KernelAttnDecodeQ8F16D128: {KVQ8, KVF16, 128},
	KernelAttnDecodeQ8Q8D64: {KVQ8, KVQ8, 64}, KernelAttnDecodeQ8Q8D128: {KVQ8, KVQ8, 128},
}

// AttnDecode is the split kernel for these formats and heads: one on tensor cores if there is one, else the general one.
func AttnDecode(keyType, valueType, headDim int32) ID {
	if id, ok := find(decodeForms, attnForm{keyType, valueType, headDim}); ok {
		return id
	}
	return KernelAttnDecodeF32
}

// AttnPrefill is the kernel for many rows, if there is one; else AttnDecode's does any number of rows, the more slowly.
func AttnPrefill(keyType, valueType, headDim int32) (ID, bool) {
	return find(prefillForms, attnForm{keyType, valueType, headDim})
}

func find(forms map[ID]attnForm, form attnForm) (ID, bool) {
	for id, f := range forms {
		if f == form {
			return id, true
		}
	}
	return 0, false
}

// Attn queues any of the attention kernels by its ID.
func (k *Kernels) Attn(id ID, q Queue, p *AttnParams) error {
	cfg, err := p.config(id, &k.device)
	if err != nil {
		return refused(id, err)
	}
	return k.launch(q, id, cfg, unsafe.Pointer(p), unsafe.Sizeof(*p), p.Bytes())
}

// Bytes moved if every row is a sequence of its own with all of Cells: the true lengths are on the device. See Moved.
func (p *AttnParams) Bytes() int64 {
	return p.queries() + int64(p.Rows)*int64(p.Cells)*p.cell() + p.result()
}

// Moved is the bytes of one of the attention kernels for rows of these lengths and sequences, the values behind Lengths and Seqs: each
// cell of a sequence once, as far as its longest row sees.
func (p *AttnParams) Moved(id ID, lengths, seqs []int32) int64 {
	var parts int64
	longest := map[int32]int32{}
	for r, n := range lengths {
		longest[seqs[r]] = max(longest[seqs[r]], n)
		parts += int64(ceil(int(n), attnChunk)) * int64(p.Heads) * (4*int64(p.HeadDim) + 8)
	}
	if id == KernelAttnCombineF32 {
		return parts + p.result()
	}
	var cells int64
	for _, n := range longest {
		cells += int64(n)
	}
	to := p.result()
	if _, ok := prefillForms[id]; !ok && id != KernelAttnReferenceF32 && p.Counters == 0 {
		to = parts
	}
	return p.queries() + cells*p.cell() + to
}

// queries is the bytes of the rows that attend.
func (p *AttnParams) queries() int64 { return 4 * int64(p.Rows) * int64(p.Heads) * int64(p.HeadDim) }

// cell is the bytes of a cell's key and value, all heads.
func (p *AttnParams) cell() int64 {
	n := int(p.KvHeads) * int(p.HeadDim)
	return kvBytes(p.KeyType, n) + kvBytes(p.ValueType, n)
}

// result is the bytes of the results in the forms that are wanted.
func (p *AttnParams) result() (n int64) {
	elements := int64(p.Rows) * int64(p.Heads) * int64(p.HeadDim)
	if p.Y != 0 {
		n += 4 * elements
	}
	if p.Q8 != 0 {
		n += elements + elements/32*8
	}
	return n
}
