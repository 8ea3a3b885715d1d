//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakMemory of an ended process, in bytes.
func peakMemory(s *os.ProcessState) int64 {
	n := int64(s.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS != "darwin" {
		n <<= 10 // counted in KiB but there
	}
	return n
}
