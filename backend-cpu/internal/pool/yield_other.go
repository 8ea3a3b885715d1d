//go:build !linux

package pool

// yieldThread lets another thread of the machine have the core, where the system offers that.
func yieldThread() {}
