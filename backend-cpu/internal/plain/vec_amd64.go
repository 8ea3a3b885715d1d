//go:build !noasm

package plain

import "github.com/klauspost/cpuid/v2"

// Vector reports whether the assembly can run here.
var Vector = cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C)

var useAVX2 = Vector

//go:noescape
func dotAVX2(a, b *float32, n int) float32

//go:noescape
func axpyAVX2(y *float32, a float32, x *float32, n int)

//go:noescape
func swigluAVX2(y, gate, up *float32, n int)

//go:noescape
func expAVX2(s *float32, m float32, n int)

//go:noescape
func halfAVX2(dst *float32, src *byte, n int)
