package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/minfer-go/minfer/quant"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	keyAlignment     = "general.alignment"

	maxKey  = 1<<16 - 1 // bytes (specification)
	maxName = 64        // bytes of a tensor's name (specification)
	maxDims = 4

	leastKey    = 8 + 1 + 4 + 1         // the fewest bytes a key and its value take
	leastTensor = 8 + 1 + 4 + 8 + 4 + 8 // the same for a tensor's description
)

// A shard is one file: a model of its own, or a part of a split one.
type shard struct {
	path      string // "" where it has none
	src       source
	version   uint32
	header    []byte // from the magic to the last tensor description
	alignment int64
	data      int64 // where tensor data starts: the header's end, aligned
	kv        []KV
	tensors   []TensorInfo
}

// parseHeader reads and checks a file's header.
func parseHeader(src source) (*shard, error) {
	c := newCursor(src)
	s := &shard{src: src}
	nTensors, nKeys, err := s.prologue(c)
	if err != nil {
		return nil, err
	}
	spans, err := s.readKeys(c, nKeys)
	if err != nil {
		return nil, err
	}
	if err := s.readTensors(c, nTensors); err != nil {
		return nil, err
	}
	s.header = c.buf[:c.pos:c.pos]
	for i, span := range spans {
		s.kv[i].Value.raw = s.header[span[0]:span[1]:span[1]]
	}
	if err := s.readAlignment(); err != nil {
		return nil, err
	}
	if err := s.checkJoined(); err != nil {
		return nil, err
	}
	return s, s.placeTensors()
}

// prologue reads the magic, the version and the two counts.
func (s *shard) prologue(c *cursor) (nTensors, nKeys uint64, err error) {
	if c.size < 24 {
		return 0, 0, corrupt("%d bytes are too few for a GGUF header", c.size)
	}
	m, err := c.take(4, "the magic")
	if err != nil {
		return 0, 0, err
	}
	if string(m) != magic {
		return 0, 0, notGGUF(c, m)
	}
	if s.version, err = c.u32("the version"); err != nil {
		return 0, 0, err
	}
	switch v := s.version; {
	case v == 2 || v == 3:
	case v == 1:
		return 0, 0, unsupported("offset 4: GGUF version 1, an early form with 32-bit counts: convert the model again to version 3")
	case v != 0 && v&0xffff == 0:
		return 0, 0, unsupported("offset 4: a big-endian file (its version reads as %#x): only little-endian files are read; "+
			"convert it with llama.cpp's gguf_convert_endian.py", v)
	case v == 0:
		return 0, 0, corrupt("offset 4: version 0")
	default:
		return 0, 0, unsupported("offset 4: GGUF version %d, newer than the versions 2 and 3 known here", v)
	}
	if nTensors, err = c.u64("the tensor count"); err != nil {
		return 0, 0, err
	}
	if nKeys, err = c.u64("the key count"); err != nil {
		return 0, 0, err
	}
	if nKeys > c.left()/leastKey {
		return 0, 0, corrupt("offset 16: %d metadata keys can't fit the file's %d bytes", nKeys, c.size)
	}
	if nTensors > c.left()/leastTensor {
		return 0, 0, corrupt("offset 8: %d tensors can't fit the file's %d bytes", nTensors, c.size)
	}
	return nTensors, nKeys, nil
}

// notGGUF says what a file with another magic may be.
func notGGUF(c *cursor, m []byte) error {
	c.pos = 0
	head, err := c.take(min(c.left(), 64), "the file's start")
	if err != nil {
		return err
	}
	for _, k := range []struct{ prefix, is string }{
		{"FUGG", "a GGUF file with swapped bytes (big-endian)"},
		{"GGML", "an old GGML file: convert the model again to GGUF"},
		{"lmgg", "an old GGML file: convert the model again to GGUF"},
		{"tjgg", "an old GGJT file: convert the model again to GGUF"},
		{"fmgg", "an old GGMF file: convert the model again to GGUF"},
		{"version https://git-lfs", "a Git LFS pointer: fetch the file itself with `git lfs pull`"},
		{"<", "a web page or XML: the download may have failed"},
		{"PK\x03\x04", "a zip archive (perhaps a PyTorch checkpoint)"},
		{"\x1f\x8b", "gzip data: unpack it first"},
	} {
		if bytes.HasPrefix(head, []byte(k.prefix)) {
			return unsupported("offset 0: no GGUF file but %s", k.is)
		}
	}
	if len(head) > 9 && head[8] == '{' && binary.LittleEndian.Uint64(head) < uint64(c.size) {
		return unsupported("offset 0: no GGUF file but a safetensors file: convert the model to GGUF")
	}
	return corrupt("offset 0: no GGUF file: it starts with %q, want %q", m, magic)
}

// readKeys reads the metadata keys and gives the place of each value's bytes.
func (s *shard) readKeys(c *cursor, n uint64) ([][2]int64, error) {
	var spans [][2]int64 // Grown as keys turn up: n is only a claim.
	seen := map[string]struct{}{}
	for i := range n {
		at := c.pos
		b, err := c.str("a metadata key")
		if err != nil {
			return nil, fmt.Errorf("metadata key %d: %w", i, err)
		}
		if err := checkText(b, maxKey); err != nil {
			return nil, corrupt("metadata key %d: offset %d: %v", i, at, err)
		}
		key := string(b)
		if _, dup := seen[key]; dup {
			return nil, corrupt("metadata key %d: offset %d: duplicate key %.80q", i, at, key)
		}
		seen[key] = struct{}{}
		v, start, end, err := c.value()
		if err != nil {
			return nil, fmt.Errorf("key %.80q: %w", key, err)
		}
		s.kv = append(s.kv, KV{key, v})
		spans = append(spans, [2]int64{start, end})
	}
	return spans, nil
}

// checkText checks a key or name: some text, valid UTF-8, no control characters.
func checkText(b []byte, limit int) error {
	switch {
	case len(b) == 0:
		return fmt.Errorf("it is empty")
	case len(b) > limit:
		return fmt.Errorf("%q… has %d bytes, at most %d are allowed", b[:min(len(b), 40)], len(b), limit)
	case !utf8.Valid(b):
		return fmt.Errorf("%.80q is no valid UTF-8", b)
	case bytes.ContainsFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%.80q holds a control character", b)
	}
	return nil
}

// readTensors reads the tensors' descriptions. Offsets stay relative to the data section until placeTensors.
func (s *shard) readTensors(c *cursor, n uint64) error {
	seen := map[string]struct{}{}
	for i := range n {
		at := c.pos
		b, err := c.str("a tensor's name")
		if err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		if err := checkText(b, maxName); err != nil {
			return corrupt("tensor %d: offset %d: its name: %v", i, at, err)
		}
		t := TensorInfo{Name: string(b)}
		if _, dup := seen[t.Name]; dup {
			return corrupt("tensor %d: offset %d: duplicate name %q", i, at, t.Name)
		}
		seen[t.Name] = struct{}{}
		if err := t.read(c); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		s.tensors = append(s.tensors, t)
	}
	return nil
}

// read reads a tensor's description after its name: shape, type and offset.
func (t *TensorInfo) read(c *cursor) error {
	at := c.pos
	dims, err := c.u32("the number of dimensions")
	if err != nil {
		return err
	}
	if dims == 0 || dims > maxDims {
		return corrupt("offset %d: %d dimensions, want 1 to %d", at, dims, maxDims)
	}
	t.Shape = make([]int, dims)
	elems := uint64(1)
	for d := range t.Shape {
		at := c.pos
		n, err := c.u64("a dimension")
		if err != nil {
			return err
		}
		hi, product := bits.Mul64(elems, n)
		if n == 0 || hi != 0 || product > math.MaxInt {
			return corrupt("offset %d: dimension %d is %d: the shape must be positive, its product below %d", at, d, n, uint64(math.MaxInt))
		}
		t.Shape[d], elems = int(n), product
	}
	at = c.pos
	typ, err := c.u32("the tensor's type")
	if err != nil {
		return err
	}
	if t.Type = quant.Type(typ); !t.Type.Known() {
		return unsupported("offset %d: unknown tensor type %d", at, typ)
	}
	if t.Size, err = tensorSize(t.Type, t.Shape); err != nil {
		return corrupt("offset %d: %v", at, err)
	}
	at = c.pos
	off, err := c.u64("the tensor's offset")
	if err != nil {
		return err
	}
	if off > uint64(c.size) {
		return corrupt("offset %d: its data is said to start at %d, but the file has only %d bytes", at, off, c.size)
	}
	t.Offset = int64(off)
	return nil
}

// tensorSize is the number of bytes of a tensor whose shape's product fits an int.
func tensorSize(t quant.Type, shape []int) (int64, error) {
	block := t.BlockElems()
	if shape[0]%block != 0 {
		return 0, fmt.Errorf("rows of %d elements are no whole number of %s blocks of %d", shape[0], t, block)
	}
	blocks := uint64(shape[0] / block)
	for _, n := range shape[1:] {
		blocks *= uint64(n)
	}
	hi, size := bits.Mul64(blocks, uint64(t.BlockBytes()))
	if hi != 0 || size > math.MaxInt {
		return 0, fmt.Errorf("%d blocks of %s are too many bytes", blocks, t)
	}
	return int64(size), nil
}

// readAlignment finds the file's alignment and with it the start of its data.
func (s *shard) readAlignment() (err error) {
	s.alignment = defaultAlignment
	for _, kv := range s.kv {
		if kv.Key != keyAlignment {
			continue
		}
		if s.alignment, err = checkAlignment(kv.Value); err != nil {
			return err
		}
	}
	s.data = alignUp(int64(len(s.header)), s.alignment)
	return nil
}

// alignUp rounds n up to a multiple of a, a power of two.
func alignUp(n, a int64) int64 { return (n + a - 1) &^ (a - 1) }

// checkJoined finds a second GGUF file behind the first one's data: that is what `cat` makes of a split model. Only the
// places where the first can end are looked at, and before any other offset is checked, since shards may have been joined in any order.
func (s *shard) checkJoined() error {
	end := s.data
	last := int64(len(s.header))
	for _, t := range s.tensors {
		if over := t.Size > s.src.size()-s.data || t.Offset > s.src.size()-s.data-t.Size; over {
			return nil // placeTensors says what is wrong.
		}
		if e := s.data + t.Offset + t.Size; e > last {
			last = e
			end = alignUp(e-s.data, s.alignment) + s.data
		}
	}
	for _, at := range []int64{last, end} {
		if at+8 > s.src.size() {
			continue
		}
		b, err := s.src.bytes(at, 8)
		if err != nil {
			return err
		}
		if string(b[:4]) == magic && (b[4] == 2 || b[4] == 3) && b[5]|b[6]|b[7] == 0 {
			return unsupported("offset %d: a second GGUF file starts here: the shards of a split model were joined with `cat`; "+
				"keep them apart and open any one, or merge them with llama.cpp's `llama-gguf-split --merge`", at)
		}
	}
	return nil
}

// placeTensors makes offsets absolute and checks that all data lies inside the file, aligned and without overlap.
func (s *shard) placeTensors() error {
	size := s.src.size()
	order := make([]int, len(s.tensors))
	for i := range s.tensors {
		order[i] = i
		t := &s.tensors[i]
		if t.Offset%s.alignment != 0 {
			return corrupt("tensor %q: its offset %d is no multiple of the alignment %d", t.Name, t.Offset, s.alignment)
		}
		if s.data > size || t.Offset > size-s.data || t.Size > size-s.data-t.Offset {
			return corrupt("tensor %q: its %d bytes at offset %d reach past the file's end at %d: the file may be cut short",
				t.Name, t.Size, s.data+t.Offset, size)
		}
		t.Offset += s.data
	}
	slices.SortFunc(order, func(a, b int) int {
		return int(min(max(s.tensors[a].Offset-s.tensors[b].Offset, -1), 1))
	})
	for i := 1; i < len(order); i++ {
		a, b := &s.tensors[order[i-1]], &s.tensors[order[i]]
		if a.Offset+a.Size > b.Offset {
			return corrupt("tensor %q: its data at offset %d overlaps that of tensor %q (%d to %d)",
				b.Name, b.Offset, a.Name, a.Offset, a.Offset+a.Size)
		}
	}
	return nil
}
