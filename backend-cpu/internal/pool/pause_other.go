//go:build !amd64 || noasm

package pool

import "runtime"

func pause() { runtime.Gosched() }
