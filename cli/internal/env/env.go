// Package env is the one place that reads the process's environment.
package env

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Gate is an environment variable that changes what the program does.
type Gate struct {
	Name    string
	Type    string // "string", "int" or "bool"
	Default string
	Meaning string
	Stable  bool // stays in later versions
}

// Gates lists every gate.
var Gates = []Gate{
	{"MINFER_MODEL", "string", "", "model file used when -m is not given, instead of the embedded one", true},
	{"MINFER_THREADS", "int", "0", "CPU threads when -t is not given; 0: what affinity and the cgroup's quota allow", true},
	{"MINFER_CPU_PATH", "string", "", "instruction path: avx512-vnni, avx2 or generic; empty: the fastest there is", true},
	{"MINFER_BACKEND", "string", "auto", "what runs the model when --backend is not given: auto, cpu or cuda", true},
	{"MINFER_CACHE_TYPE", "string", "f16", "KV cache format when --cache-type-k and -v are not given: f32, f16 or q8_0", true},
	{"MINFER_DISABLE_CUDA", "bool", "0", "behave as if there were no GPU", true},
	{"MINFER_CUDA_KERNELS", "string", "", "file with the CUDA kernels; empty: beside the program, then the user's cache", true},
	{"MINFER_NO_CUDA_GRAPH", "bool", "0", "launch CUDA kernels one by one, never replay a step", false},
	{"MINFER_NO_PREFILL_CAPTURE", "bool", "0", "replay decode steps only", false},
	{"MINFER_NO_PREFILL_GEMM", "bool", "0", "prefill by the kernels of decoding, with their bits", false},
	{"MINFER_NO_PREWARM", "bool", "0", "load CUDA kernels when first used instead of at the start", false},
	{"MINFER_CUDA_TILES", "bool", "1", "lay quantised weights out in tiles on the GPU; 0: as in the file (also MINFER_Q6K_DPL)", false},
	{"MINFER_OP_TIMING", "bool", "0", "time every kind of work, or CUDA kernel, and print tables at the end, as --profile does", false},
	{"MINFER_REBUILD_TRACE", "bool", "0", "print counts of compiled and reused graphs and of replays at the end", false},
	{"MINFER_TRACE", "string", "", "write the times of every node to this file as a Chrome trace", false},
}

// aliases are other names of gates. MINFER_Q6K_DPL is upstream minfer's switch of weight layouts.
var aliases = map[string]string{"MINFER_Q6K_DPL": "MINFER_CUDA_TILES"}

// Get gives a gate's value, or its default. Asking for a variable that isn't a gate is a bug.
func Get(name string) string {
	_, v := lookup(name)
	return v
}

// lookup gives a gate's value and the variable that it was set by.
func lookup(name string) (variable, value string) {
	for _, g := range Gates {
		if g.Name == name {
			if v, ok := os.LookupEnv(name); ok {
				return name, v
			}
			for alias, of := range aliases {
				if v, ok := os.LookupEnv(alias); ok && of == name {
					return alias, v
				}
			}
			return name, g.Default
		}
	}
	panic("env: " + name + " is not in the table of gates")
}

// Int gives an integer gate's value.
func Int(name string) (int, error) {
	variable, v := lookup(name)
	n, err := strconv.Atoi(v)
	if err != nil {
		return 0, fmt.Errorf("environment: %s=%q is not an integer", variable, v)
	}
	return n, nil
}

// Bool gives a switch's value: 1, 0, true, false and the like.
func Bool(name string) (bool, error) {
	variable, v := lookup(name)
	if v == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("environment: %s=%q is neither 1 nor 0", variable, v)
	}
	return on, nil
}

// Check reports the first malformed value, a gate that is set by two names, or a MINFER_ variable that no gate has.
func Check() error {
	for _, g := range Gates {
		var err error
		switch g.Type {
		case "int":
			_, err = Int(g.Name)
		case "bool":
			_, err = Bool(g.Name)
		}
		if err != nil {
			return err
		}
	}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if gate := aliases[name]; gate != "" {
			if _, both := os.LookupEnv(gate); both {
				return fmt.Errorf("environment: %s is another name of %s, which is set too: unset one of them", name, gate)
			}
			continue
		}
		if strings.HasPrefix(name, "MINFER_") && !strings.HasPrefix(name, "MINFER_TEST_") && !known(name) {
			return fmt.Errorf("environment: %s is not known (see minfer-cli env)", name)
		}
	}
	return nil
}

func known(name string) bool {
	for _, g := range Gates {
		if g.Name == name {
			return true
		}
	}
	return false
}
