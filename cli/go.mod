module github.com/minfer-go/minfer/cli

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/klauspost/cpuid/v2 v2.4.0
	github.com/minfer-go/minfer/backend-cpu v0.1.0
	github.com/minfer-go/minfer/backend-cuda v0.1.0
	github.com/minfer-go/minfer/cudart v0.1.0
	github.com/minfer-go/minfer/engine v0.1.0
	github.com/minfer-go/minfer/gguf v0.1.0
	github.com/minfer-go/minfer/graph v0.1.0
	github.com/minfer-go/minfer/kernels-cuda v0.1.0
	github.com/minfer-go/minfer/kvformat v0.1.0
	github.com/minfer-go/minfer/models-qwen v0.1.0
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/minfer-go/minfer/quant v0.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.41.0 // indirect
)
