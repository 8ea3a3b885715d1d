//go:build !amd64 || noasm

package vec

const hasAssembly = false

func addAVX2(y, a, b *float32, n int)                                             {}
func sumSquaresAVX2(x *float32, n int) float32                                    { return 0 }
func normAVX2(y, x, w *float32, n int, inv float32)                               {}
func swigluAVX2(y, gate, up *float32, n int)                                      {}
func ropeAVX2(y0, x0, y1, x1, cos, sin *float32, n int)                           {}
func softAVX2(s *float32, valid *int, state *float32, queries int, scale float32) {}
func mergeAVX2(s, o, c, oc *float32, n, queries int)                              {}
func scaleAVX2(y, x *float32, n int, f float32)                                   {}
func encodeF16AVX2(dst *byte, x *float32, n int)                                  {}
func widenF32AVX2(dst *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF32x1AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func scoresF32x2AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func scoresF32x3AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF32x1AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func weighF32x2AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func weighF32x3AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func widenF16AVX2(dst *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF16x1AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func scoresF16x2AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func scoresF16x3AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF16x1AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func weighF16x2AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func weighF16x3AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func widenQ8AVX2(dst *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {}
func scoresQ8x1AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func scoresQ8x2AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func scoresQ8x3AVX2(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighQ8x1AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func weighQ8x2AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func weighQ8x3AVX2(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF32x1AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF32x1AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF32x2AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF32x2AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF32x3AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF32x3AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF16x1AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF16x1AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF16x2AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF16x2AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresF16x3AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighF16x3AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresQ8x1AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighQ8x1AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresQ8x2AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighQ8x2AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func scoresQ8x3AVX512(s, q *float32, src *byte, offs *int, tiles, blocks, step int, next *byte, nextStep int) {
}
func weighQ8x3AVX512(o *float32, oStep int, p *float32, src *byte, offs *int, n, blocks, step int, next *byte, nextStep int) {
}
func packF32AVX2(dst *float32, src *byte, offs *int, halves, blocks, step int) {}
func packF16AVX2(dst *float32, src *byte, offs *int, halves, blocks, step int) {}
func packQ8AVX2(dst *float32, src *byte, offs *int, halves, blocks, step int)  {}
func scoresPackedAVX2(s, q, k *float32, groups, blocks int)                    {}
