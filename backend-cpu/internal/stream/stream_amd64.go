//go:build !noasm

package stream

import "github.com/klauspost/cpuid/v2"

var vector = cpuid.CPU.Supports(cpuid.AVX)

//go:noescape
func read8(p *byte, stride, n int)
