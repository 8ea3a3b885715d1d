//go:build !linux

package backendcpu

// availableMemory is not known here.
func availableMemory() (n int64, ok bool) { return 0, false }
