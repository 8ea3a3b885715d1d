// Package synthetic makes models of real shapes with random weights, in memory: for measuring a machine before anything is
// downloaded, and for tests.
package synthetic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minfer-go/minfer/quant"
)

// shape of a released model, from its config.json.
type shape struct {
	name                    string
	arch                    string
	layers, embd, ff        int
	heads, kvHeads, headDim int
	vocab                   int
	tied                    bool
	ropeBase                float32
}

var shapes = []shape{
	{"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, true, 1e6},
	{"qwen2.5-1.5b", "qwen2", 28, 1536, 8960, 12, 2, 128, 151936, true, 1e6},
	{"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, false, 1e6},
	{"qwen2.5-14b", "qwen2", 48, 5120, 13824, 40, 8, 128, 152064, false, 1e6},
	{"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, true, 1e6},
	{"qwen3-1.7b", "qwen3", 28, 2048, 6144, 16, 8, 128, 151936, true, 1e6},
	{"qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, true, 1e6},
	{"qwen3-8b", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, false, 1e6},
	{"qwen3-14b", "qwen3", 40, 5120, 17408, 40, 8, 128, 151936, false, 1e6},
	{"tiny", "qwen3", 2, 256, 512, 4, 2, 64, 512, true, 1e4},
}

// Names of the shapes.
func Names() []string {
	var names []string
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}

// fileType names the type of most matrices; mixtures give some of them more bits, as llama.cpp's K_M files do.
type fileType struct {
	name  string
	base  quant.Type
	mixed bool
	id    uint32 // general.file_type
}

var fileTypes = []fileType{
	{"f32", quant.F32, false, 0}, {"f16", quant.F16, false, 1}, {"bf16", quant.BF16, false, 32},
	{"q4_0", quant.Q4_0, false, 2}, {"q4_1", quant.Q4_1, false, 3}, {"q5_0", quant.Q5_0, false, 8}, {"q5_1", quant.Q5_1, false, 9}, {"q8_0", quant.Q8_0, false, 7},
	{"q4_k", quant.Q4_K, false, 14}, {"q5_k", quant.Q5_K, false, 16}, {"q6_k", quant.Q6_K, false, 18},
	{"q4_k_m", quant.Q4_K, true, 15}, {"q5_k_m", quant.Q5_K, true, 17},
}

// Types are the names of the file types.
func Types() []string {
	var names []string
	for _, t := range fileTypes {
		names = append(names, t.name)
	}
	return names
}

// plan is one tensor to be made. Sigma is the standard deviation of its weights; 0 stands for a norm's weights about 1.
type plan struct {
	name  string
	typ   quant.Type
	shape []int // cols, rows
	sigma float64
}

// lookup parses "SHAPE:TYPE".
func lookup(spec string) (s shape, typ int, err error) {
	name, kind, _ := strings.Cut(strings.ToLower(spec), ":")
	si := slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
	typ = slices.IndexFunc(fileTypes, func(t fileType) bool { return t.name == kind })
	if si < 0 || typ < 0 {
		return s, 0, fmt.Errorf("synthetic: %q is no SHAPE:TYPE: shapes are %s; types are %s", spec, strings.Join(Names(), ", "), strings.Join(Types(), ", "))
	}
	return shapes[si], typ, nil
}
