package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/reg"
)

// spreader writes results of weight rows that lie far apart to where they belong.
func spreader() {
	TEXT("spread8", NOSPLIT, "func(dst *float32, stride int, src *float32, srcStride int)")
	Doc("spread8 transposes 8 rows of 8 floats: value l of row i goes to value i of row l of dst. Strides are in bytes.")
	dst := Load(Param("dst"), GP64()).(Register)
	out := newRows8(dst, Load(Param("stride"), GP64()).(Register))
	src := Load(Param("src"), GP64()).(Register)
	in := newRows8(src, Load(Param("srcStride"), GP64()).(Register))
	for h := range 2 {
		for k, v := range in.transpose16(16*h, work) {
			VMOVUPS(v, out.at(4*h+k, 0))
		}
	}
	VZEROUPPER()
	RET()
}
