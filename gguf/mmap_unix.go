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
	// Ask before opening: opening a pipe would wait for a writer.
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file (%s)", path, st.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // The mapping outlives the descriptor.
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	n := st.Size()
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
