//go:build unix

package stream

import (
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Read stays inside its data, whatever its length and place: the pages about it can't be read. And it does touch the data: without them
// it faults.
func TestReadStaysInside(t *testing.T) {
	if !Read(nil) {
		require.False(t, vector)
		return
	}
	page := syscall.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, 4*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(mem)) }()
	require.NoError(t, syscall.Mprotect(mem[:page], syscall.PROT_NONE))
	require.NoError(t, syscall.Mprotect(mem[3*page:], syscall.PROT_NONE))
	inside := mem[page : 3*page]
	for _, n := range []int{0, 1, 63, 511, 512, 513, 1024, 4095, 2*page - 1, 2 * page} {
		require.True(t, Read(inside[:n]))
		require.True(t, Read(inside[2*page-n:]))
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, from := range []int{0, page} { // the first stream, and the last ones
		require.Panics(t, func() { Read(mem[from : from+3*page]) }, "bytes from %d on", from)
	}
}
