//go:build unix

package gguf

import (
	"fmt"
	"math"
	"os"
	"syscall"
)

// openSource maps the file at path read-only. The mapping is shared with the page cache, so that several processes with
// one model hold it once. A file that shrinks while it is mapped faults the process (SIGBUS), as with any mapping.
func openSource(path string) (source, error) {
	f, n, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // The mapping outlives the descriptor.
	if n == 0 {
		return &memory{}, nil // mmap refuses a length of zero.
	}
	if n > math.MaxInt {
		return nil, fmt.Errorf("%w: %d bytes don't fit this machine's address space", ErrUnsupported, n)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(n), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, &os.PathError{Op: "mmap", Path: path, Err: err}
	}
	return &memory{b: b, unmap: func() error { return syscall.Munmap(b) }}, nil
}
