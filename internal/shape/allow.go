package shape

// Siblings says which modules of the workspace each module may import: the arrows of docs/design.md. Nothing points
// upward, graph knows no backend, and only cli knows CUDA.
var Siblings = map[string][]string{
	"quant":        {},
	"gguf":         {"quant"},
	"graph":        {"quant"},
	"kvformat":     {"quant"},
	"backend-cpu":  {"quant", "graph", "kvformat"},
	"cudart":       {},
	"kernels-cuda": {"cudart"},
	"backend-cuda": {"quant", "graph", "cudart", "kernels-cuda"},
	"models-qwen":  {"quant", "gguf", "graph", "kvformat"},
	"engine":       {"quant", "gguf", "graph", "kvformat", "backend-cpu", "models-qwen"},
	"cli": {"quant", "gguf", "graph", "kvformat", "backend-cpu", "models-qwen", "engine",
		"cudart", "kernels-cuda", "backend-cuda"},
}

// Third is a third-party module that some modules may depend on.
type Third struct {
	Path   string
	In     []string // modules that may require it; nil: all
	Tests  bool     // only their tests may use it
	Reason string
}

// ThirdParty is every dependency from outside the workspace.
var ThirdParty = []Third{
	{"github.com/stretchr/testify", nil, true, "assertions in tests"},
	{"github.com/davecgh/go-spew", nil, true, "required by testify"},
	{"github.com/pmezard/go-difflib", nil, true, "required by testify"},
	{"go.yaml.in/yaml/v3", nil, true, "required by testify"},
	{"gopkg.in/yaml.v3", nil, true, "required by testify"},
	{"pgregory.net/rapid", []string{"graph"}, true, "random graphs against the plans' invariants, with shrinking"},
	{"github.com/dlclark/regexp2/v2", []string{"engine"}, true,
		"the tokenizer's expressions (Perl syntax), the oracle for the hand-written scanners"},
	{"github.com/klauspost/cpuid/v2", []string{"backend-cpu", "engine", "cli"}, false,
		"which instruction sets the CPU and the system offer; the standard library's own detection is internal"},
	{"golang.org/x/sys", []string{"backend-cpu", "engine", "cli", "gguf"}, false,
		"required by cpuid; files mapped into memory and CPU affinity where package syscall has no call"},
	{"golang.org/x/sync", []string{"engine", "cli"}, false, "error groups"},
	{"github.com/alecthomas/kong", []string{"cli"}, false, "command line"},
}
