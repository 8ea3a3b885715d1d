//go:build !amd64 || noasm

package plain

func setVector(bool) {}
