module github.com/minfer-go/minfer/cli

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/minfer-go/minfer/backend-cpu v0.1.0
	github.com/minfer-go/minfer/engine v0.1.0
	github.com/minfer-go/minfer/gguf v0.1.0
	github.com/minfer-go/minfer/graph v0.1.0
	github.com/minfer-go/minfer/kvformat v0.1.0
	github.com/minfer-go/minfer/models-qwen v0.1.0
	github.com/minfer-go/minfer/quant v0.1.0
)
