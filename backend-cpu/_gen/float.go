package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// dots writes the products of float weights: rows of weights times rows of activations, 16 lanes in two registers each.
func dots() {
	for _, typ := range []string{"F32", "F16", "BF16"} {
		dot(typ, 4, 1)
		dot(typ, 2, 2)
	}
}

func dot(typ string, rows, tokens int) {
	name := fmt.Sprintf("dot%sx%dx%d", typ, rows, tokens)
	TEXT(name, NOSPLIT, "func(dst *float32, stride int, w *byte, wStride int, x *float32, xStride, groups int)")
	Doc(fmt.Sprintf("%s multiplies %d weight rows with %d rows of activations, groups of 16 columns. Strides are in bytes.", name, rows, tokens))
	dst := Load(Param("dst"), GP64()).(Register)
	stride := Load(Param("stride"), GP64()).(Register)
	w := Load(Param("w"), GP64()).(Register)
	ws := Load(Param("wStride"), GP64()).(Register)
	x := Load(Param("x"), GP64()).(Register)
	xs := Load(Param("xStride"), GP64()).(Register)
	n := Load(Param("groups"), GP64()).(GPVirtual)
	r8 := newRows8(w, ws)
	size := 2
	if typ == "F32" {
		size = 4
	}
	all := []VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7}
	acc := func(r, t, h int) VecPhysical { return all[(r*tokens+t)*2+h] }
	for _, y := range all[:2*rows*tokens] {
		VXORPS(y, y, y)
	}
	Label("group")
	for h := range 2 {
		xv := []VecPhysical{Y8, Y9}
		for t := range tokens {
			m := Mem{Base: x, Disp: 32 * h}
			if t > 0 {
				m.Index, m.Scale = xs, 1
			}
			VMOVUPS(m, xv[t])
		}
		for r := range rows {
			m, y := r8.at(r, 8*size*h), Y10
			switch typ {
			case "F32":
				VMOVUPS(m, y)
			case "F16":
				VCVTPH2PS(m, y)
			case "BF16":
				VPMOVZXWD(m, y)
				VPSLLD(U8(16), y, y)
			}
			for t := range tokens {
				VFMADD231PS(xv[t], y, acc(r, t, h))
			}
		}
	}
	ADDQ(U8(16*size), w)
	ADDQ(U8(64), x)
	DECQ(n)
	JNZ(LabelRef("group"))
	for r := range rows {
		for t := range tokens {
			y := acc(r, t, 0)
			VADDPS(acc(r, t, 1), y, y)
			VEXTRACTF128(U8(1), y, X10)
			VADDPS(X10, y.AsX(), y.AsX())
			VMOVHLPS(y.AsX(), y.AsX(), X10)
			VADDPS(X10, y.AsX(), y.AsX())
			VPSHUFD(U8(1), y.AsX(), X10)
			VADDSS(X10, y.AsX(), y.AsX())
			m := Mem{Base: dst, Disp: 4 * r}
			if t > 0 {
				m.Index, m.Scale = stride, 1
			}
			VMOVSS(y.AsX(), m)
		}
	}
	VZEROUPPER()
	RET()
}
