//go:build !amd64

package vec

func vectorHere() bool { return false }

func vector512Here() bool { return false }
