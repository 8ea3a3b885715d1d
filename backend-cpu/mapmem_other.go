//go:build !unix

package backendcpu

// mapMemory gives nil: take Go's heap.
func mapMemory(int) ([]byte, error) { return nil, nil }

func unmapMemory([]byte) {}
