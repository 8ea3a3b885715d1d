//go:build amd64 && !noasm

package pool

// pause waits a moment (8 PAUSE instructions) without taking the memory port from a sibling.
//
//go:noescape
func pause()
