//go:build !amd64 || noasm

package plain

// Vector reports whether the assembly can run here.
const Vector = false

const useAVX2 = false

func dotAVX2(a, b *float32, n int) float32              { panic("vec: no assembly in this build") }
func axpyAVX2(y *float32, a float32, x *float32, n int) { panic("vec: no assembly in this build") }
func swigluAVX2(y, gate, up *float32, n int)            { panic("vec: no assembly in this build") }
func expAVX2(s *float32, m float32, n int)              { panic("vec: no assembly in this build") }
func halfAVX2(dst *float32, src *byte, n int)           { panic("vec: no assembly in this build") }
