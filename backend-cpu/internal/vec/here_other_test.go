//go:build !amd64

package vec

func vectorHere() bool { return false }
