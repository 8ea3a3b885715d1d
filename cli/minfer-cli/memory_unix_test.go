//go:build unix

package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
)

// peakMemory of an ended process, in bytes. Where a child begins with its parent's peak, as on Linux, startPeak bounds what can be told.
func peakMemory(s *os.ProcessState) int64 {
	n := int64(s.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS != "darwin" {
		n <<= 10 // counted in KiB but there
	}
	return n
}

// startPeak makes this process small, and says from which peak its children start, at most.
func startPeak() int64 {
	if runtime.GOOS != "linux" {
		return 0
	}
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak becomes what is in use
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return math.MaxInt64
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscanf(line, "%d kB", &kib); err != nil {
		return math.MaxInt64
	}
	return kib << 10
}
