package quant_test

import (
	"fmt"

	"github.com/minfer-go/minfer/quant"
)

func Example() {
	src := make([]float32, 32)
	for i := range src {
		src[i] = float32(i) / 8
	}
	block := make([]byte, quant.Q8_0.RowBytes(len(src)))
	if err := quant.Quantize(quant.Q8_0, block, src); err != nil {
		fmt.Println(err)
		return
	}
	back := make([]float32, len(src))
	if err := quant.Dequantize(quant.Q8_0, back, block); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d bytes, %.3f became %.3f\n", len(block), src[9], back[9])
	// Output: 34 bytes, 1.125 became 1.129
}

func ExampleType_String() {
	fmt.Println(quant.Q6_K, quant.Q6_K.BlockElems(), quant.Q6_K.BlockBytes())
	fmt.Println(quant.Dequantize(quant.IQ4_XS, make([]float32, 256), make([]byte, 136)))
	// Output:
	// Q6_K 256 210
	// quant: dequantize: unsupported tensor type: IQ4_XS
}
