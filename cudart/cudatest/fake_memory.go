package cudatest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/sys"
)

// block is a piece of device memory. Addresses are never given twice, and gaps lie between them.
type block struct {
	at   uint64
	data []byte
	dev  *device
}

type pinned struct {
	words []uint64
	n     uint64
}

// garbage is what fresh memory holds at its start, so that reading it unset shows.
const garbage = 0xCD

func newBytes(n uint64) []uint64 {
	words := make([]uint64, (n+7)/8)
	for i := range min(len(words), 1<<16) {
		words[i] = garbage * 0x0101010101010101
	}
	return words
}

func bytesOf(words []uint64, n uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

func (f *Fake) memGetInfo() (free, total uint64, r sys.Result) {
	defer f.mu.Unlock()
	d, r := f.enter("MemGetInfo")
	if r != sys.Success {
		return 0, 0, r
	}
	return uint64(max(0, f.opt.Memory-d.used)), uint64(f.opt.Memory), r
}

func (f *Fake) memAlloc(n uint64) (sys.DevicePtr, sys.Result) {
	defer f.mu.Unlock()
	d, r := f.guarded("MemAlloc")
	switch {
	case r != sys.Success:
		return 0, r
	case n == 0:
		return 0, sys.InvalidValue
	case n > uint64(max(0, f.opt.Memory-d.used)):
		return 0, sys.OutOfMemory
	}
	b := &block{at: f.address, data: bytesOf(newBytes(n), n), dev: d}
	f.address += (n + 0x1ff) &^ 0xff // at least one gap of 256 bytes or a part of it
	d.used += int64(n)
	f.blocks = append(f.blocks, b)
	return sys.DevicePtr(b.at), r
}

// memFree first runs all work of the device, as the driver waits for it.
func (f *Fake) memFree(p sys.DevicePtr) sys.Result {
	f.run.Lock()
	defer f.run.Unlock()
	d, r := f.guarded("MemFree")
	f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	if r = f.drainDevice(d, "MemFree"); r != sys.Success {
		return r
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.blocks, func(b *block) bool { return b.at == uint64(p) })
	if i < 0 {
		_, why := f.find(p, 1)
		if why == "" {
			why = fmt.Sprintf("%#x lies inside an allocation", p)
		}
		f.violate("MemFree: %s", why)
		d.sticky = sys.IllegalAddress
		return d.sticky
	}
	b := f.blocks[i]
	f.blocks = slices.Delete(f.blocks, i, i+1)
	b.dev.used -= int64(len(b.data))
	if len(f.freed) == 256 {
		f.freed = f.freed[1:]
	}
	f.freed = append(f.freed, &block{at: b.at, data: b.data[:0:0], dev: b.dev})
	return sys.Success
}

// find gives n bytes at p, or why it can't. mu is held.
func (f *Fake) find(p sys.DevicePtr, n int64) ([]byte, string) {
	at := uint64(p)
	i := sort.Search(len(f.blocks), func(i int) bool { return f.blocks[i].at > at }) - 1
	if n >= 0 && i >= 0 {
		b := f.blocks[i]
		off := at - b.at
		if off <= uint64(len(b.data)) && uint64(n) <= uint64(len(b.data))-off {
			return b.data[off : off+uint64(n) : off+uint64(n)], ""
		}
		if off < uint64(len(b.data)) {
			return nil, fmt.Sprintf("%d bytes at %#x go beyond their allocation of %d bytes at %#x", n, at, len(b.data), b.at)
		}
	}
	for _, b := range f.freed {
		if b.at == at {
			return nil, fmt.Sprintf("%#x has been freed", at)
		}
	}
	return nil, fmt.Sprintf("no memory is allocated at %#x (%d bytes wanted)", at, n)
}

func (f *Fake) memHostAlloc(n uint64) (unsafe.Pointer, sys.Result) {
	defer f.mu.Unlock()
	_, r := f.guarded("MemHostAlloc")
	if r != sys.Success {
		return nil, r
	}
	if n == 0 || n > 1<<40 {
		return nil, sys.OutOfMemory
	}
	p := &pinned{words: newBytes(n), n: n}
	at := unsafe.Pointer(unsafe.SliceData(p.words))
	f.pinned[uintptr(at)] = p
	return at, r
}

func (f *Fake) memFreeHost(at unsafe.Pointer) sys.Result {
	f.run.Lock()
	defer f.run.Unlock()
	d, r := f.guarded("MemFreeHost")
	f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	if r = f.drainDevice(d, "MemFreeHost"); r != sys.Success {
		return r
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.pinned[uintptr(at)]; !ok {
		f.violate("MemFreeHost: memory that isn't pinned, or no longer")
		return sys.InvalidValue
	}
	delete(f.pinned, uintptr(at))
	return sys.Success
}

// host gives the n pinned bytes at p, or nil. mu is held.
func (f *Fake) host(p unsafe.Pointer, n uint64) []byte {
	for at, m := range f.pinned {
		if off := uintptr(p) - at; uintptr(p) >= at && uint64(off) <= m.n && n <= m.n-uint64(off) {
			return bytesOf(m.words, m.n)[off : uint64(off)+n]
		}
	}
	return nil
}

// copyOp queues a copy; ends says when it runs where the bytes are.
func (f *Fake) copyOp(name string, n uint64, s sys.Stream, host unsafe.Pointer, ends func() (dst, src []byte, why string)) sys.Result {
	d, r := f.enter(name)
	defer f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	if host != nil && f.host(host, n) == nil {
		f.violate("%s: the host's memory isn't pinned", name)
		return sys.InvalidValue
	}
	return f.push(d, s, &op{what: name, run: func() sys.Result {
		f.mu.Lock()
		dst, src, why := ends()
		f.mu.Unlock()
		if why != "" {
			return f.failed(name, why, sys.IllegalAddress)
		}
		copy(dst, src)
		return sys.Success
	}})
}

const unpinned = "the pinned memory has been freed"

func (f *Fake) memcpyHtoD(dst sys.DevicePtr, src unsafe.Pointer, n uint64, s sys.Stream) sys.Result {
	return f.copyOp("MemcpyHtoD", n, s, src, func() ([]byte, []byte, string) {
		to, why := f.find(dst, int64(n))
		from := f.host(src, n)
		if from == nil {
			why = unpinned
		}
		return to, from, why
	})
}

func (f *Fake) memcpyDtoH(dst unsafe.Pointer, src sys.DevicePtr, n uint64, s sys.Stream) sys.Result {
	return f.copyOp("MemcpyDtoH", n, s, dst, func() ([]byte, []byte, string) {
		from, why := f.find(src, int64(n))
		to := f.host(dst, n)
		if to == nil {
			why = unpinned
		}
		return to, from, why
	})
}

func (f *Fake) memcpyDtoD(dst, src sys.DevicePtr, n uint64, s sys.Stream) sys.Result {
	return f.copyOp("MemcpyDtoD", n, s, nil, func() ([]byte, []byte, string) {
		to, why := f.find(dst, int64(n))
		from, why2 := f.find(src, int64(n))
		if why == "" {
			why = why2
		}
		if why == "" && uint64(dst) < uint64(src)+n && uint64(src) < uint64(dst)+n && dst != src {
			f.violate("MemcpyDtoD: the ranges overlap")
		}
		return to, from, why
	})
}

func (f *Fake) setOp(name string, dst sys.DevicePtr, bytes uint64, s sys.Stream, set func([]byte)) sys.Result {
	d, r := f.enter(name)
	defer f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	return f.push(d, s, &op{what: name, run: func() sys.Result {
		f.mu.Lock()
		to, why := f.find(dst, int64(bytes))
		f.mu.Unlock()
		if why != "" {
			return f.failed(name, why, sys.IllegalAddress)
		}
		set(to)
		return sys.Success
	}})
}

func (f *Fake) memsetD8(dst sys.DevicePtr, v uint8, n uint64, s sys.Stream) sys.Result {
	return f.setOp("MemsetD8", dst, n, s, func(b []byte) {
		for i := range b {
			b[i] = v
		}
	})
}

func (f *Fake) memsetD32(dst sys.DevicePtr, v uint32, n uint64, s sys.Stream) sys.Result {
	return f.setOp("MemsetD32", dst, 4*n, s, func(b []byte) {
		for ; len(b) >= 4; b = b[4:] {
			binary.NativeEndian.PutUint32(b, v)
		}
	})
}

// failed notes why queued work failed, and gives r.
func (f *Fake) failed(what, why string, r sys.Result) sys.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.violate("%s: %s", what, why)
	return r
}
