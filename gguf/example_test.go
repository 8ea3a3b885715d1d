package gguf_test

import (
	"bytes"
	"fmt"

	"github.com/minfer-go/minfer/gguf"
	"github.com/minfer-go/minfer/quant"
)

func ExampleOpen() {
	f, err := gguf.Open("testdata/tiny-qwen3-q8_0.gguf")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	arch, err := gguf.Need[string](f, "general.architecture")
	if err != nil {
		fmt.Println(err)
		return
	}
	layers, err := gguf.Need[int](f, arch+".block_count")
	if err != nil {
		fmt.Println(err)
		return
	}
	t, _ := f.Tensor("blk.0.attn_q.weight")
	fmt.Println(arch, layers, t.Type, t.Shape)
	// Output: qwen3 2 Q8_0 [64 512]
}

func ExampleGet() {
	f, err := gguf.Open("testdata/tiny-qwen3-q8_0.gguf")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	_, ok, err := gguf.Get[int](f, "qwen3.expert_count")
	fmt.Println(ok, err)
	_, ok, err = gguf.Get[int](f, "general.architecture")
	fmt.Println(ok, err)
	// Output:
	// false <nil>
	// true gguf: key "general.architecture": metadata value of another type: it is string, want one integer
}

func ExampleWriter() {
	var file bytes.Buffer
	w, err := gguf.NewWriter(&file, gguf.WriterOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, err := range []error{
		w.Set("general.architecture", "example"),
		w.AddTensor("weights", quant.F32, 2, 1),
		w.WriteTensor("weights", make([]byte, 8)),
		w.Close(),
	} {
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	f, err := gguf.OpenBytes(file.Bytes())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(f.Metadata()), len(f.Tensors()), f.Size())
	// Output: 1 1 160
}
