//go:build !amd64 || noasm

package vec

const hasAssembly = false

func addAVX2(y, a, b *float32, n int)                                  {}
func sumSquaresAVX2(x *float32, n int) float32                         { return 0 }
func normAVX2(y, x, w *float32, n int, inv float32)                    {}
func swigluAVX2(y, gate, up *float32, n int)                           {}
func ropeAVX2(y0, x0, y1, x1, cos, sin *float32, n int)                {}
func keysF32AVX2(dst *float32, src *byte, offs *int, headDim int)      {}
func keysF16AVX2(dst *float32, src *byte, offs *int, headDim int)      {}
func keysQ8AVX2(dst *float32, src *byte, offs *int, headDim int)       {}
func valuesF32AVX2(dst *float32, src *byte, offs *int, n, headDim int) {}
func valuesF16AVX2(dst *float32, src *byte, offs *int, n, headDim int) {}
func valuesQ8AVX2(dst *float32, src *byte, offs *int, n, headDim int)  {}
func scoresAVX2(s, q, keys *float32, pairs, tiles, groups int)         {}
func scores64AVX2(s, q, keys *float32, pairs, tiles, groups int)       {}
func scores128AVX2(s, q, keys *float32, pairs, tiles, groups int)      {}
func softAVX2(s *float32, n int, scale float32) (m, l float32)         { return 0, 0 }
func weighAVX2(o, p, values *float32, n int)                           {}
func weigh2AVX2(o0, o1, p0, p1, values *float32, n int)                {}
func mergeAVX2(o, oc *float32, n int, a, b float32)                    {}
func encodeF16AVX2(dst *byte, x *float32, n int)                       {}
