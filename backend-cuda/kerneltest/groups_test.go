package kerneltest

import (
	"slices"
	"strings"

	"github.com/minfer-go/minfer/quant"
)

// small leaves the cases out that take long on a CPU.
var small bool

// counts are the numbers of columns that cases go through.
func counts() []int {
	if small {
		return []int{1, 2, 3, 8, 9, columns}
	}
	return []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 24, 32, 33, 64, columns}
}

// groups lists the cases, by the kernels that share a process.
func groups() map[string][]testCase {
	g := map[string][]testCase{}
	for _, t := range quantised {
		name := strings.ToLower(t.String())
		for _, s := range shapes(t) {
			if small && s[0]*s[1] > 1<<18 && (t != quant.Q4_K || s[0]*s[1] > 1<<20) { // one with more activations than stay in shared memory
				continue
			}
			g[name] = append(g[name], productCase(t, s[0], s[1]))
			if s[0] < 1000 {
				g[name] = append(g[name], expandCase(t, s[0], s[1]), gatherCase(t, s[0], s[1]))
			}
		}
		for _, s := range [][2]int{{32, 256}, {64, 1536}, {96, 3584}, {48, 2560}, {7, 512}, {8224, 1280}} {
			if small && s[0]*s[1] > 1<<18 {
				continue
			}
			g[name] = append(g[name], swigluCase(t, s[0], s[1]))
		}
		g[name] = append(g[name], stackCase([3]quant.Type{t, t, t}, [3]int{65, 16, 33}, 1024))
	}
	for _, t := range floats {
		name := strings.ToLower(t.String())
		for _, s := range [][2]int{{1, 1}, {3, 7}, {17, 129}, {40, 1024}, {33, 3587}, {130, 896}} {
			g[name] = append(g[name], floatCase(t, s[0], s[1]), gatherCase(t, s[0], s[1]))
		}
	}
	q4, q5, q6, q50, q51, q80 := quant.Q4_K, quant.Q5_K, quant.Q6_K, quant.Q5_0, quant.Q5_1, quant.Q8_0
	for _, types := range [][3]quant.Type{{q4, q4, q6}, {q5, q6, q4}, {q6, q5, q5}, {q50, q80, q51}, {q80, q80, q50}} {
		g["stack"] = append(g["stack"], stackCase(types, [3]int{80, 16, 40}, 768))
		if !small {
			g["stack"] = append(g["stack"], stackCase(types, [3]int{33, 128, 17}, 5632))
		}
	}
	for _, s := range [][3]int{{1, 32, 32}, {3, 896, 896}, {70, 4096, 4096}, {2, 1056, 1059}} {
		g["quantize"] = append(g["quantize"], quantizeCase(s[0], s[1], s[2], false), quantizeCase(s[0], s[1], s[2], true))
	}
	for _, s := range [][3]int{{1, 8, 8}, {3, 100, 104}, {5, 4864, 4864}, {2, 33, 40}} {
		g["quantize"] = append(g["quantize"], convertCase(s[0], s[1], s[2]))
	}
	for _, s := range [][3]int{{1, 1, 8}, {9, 17, 40}, {64, 64, 64}, {130, 257, 264}, {200, 300, 1032}, {129, 513, 100}, {33, 1100, 3584}} {
		if small && s[0]*s[1]*s[2] > 1<<21 {
			continue
		}
		g["gemm"] = append(g["gemm"], gemmCase(true, s[0], s[1], s[2]), gemmCase(false, s[0], s[1], s[2]), gemmF32Case(s[0], s[1], s[2]))
	}
	for _, s := range modelShapes() {
		if !small {
			g["models"] = append(g["models"], modelCase(s))
		}
	}
	g["gemm"] = append(g["gemm"], gemmF32Case(5, 9, 3), gemmF32Case(140, 150, 77))
	return g
}

func groupNames() []string {
	var names []string
	for name := range groups() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
