module github.com/minfer-go/minfer/gguf

go 1.26.0

require (
	github.com/minfer-go/minfer/quant v0.1.0
)
