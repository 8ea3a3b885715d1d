module github.com/minfer-go/minfer/kernels-cuda

go 1.26.0

require (
	github.com/minfer-go/minfer/cudart v0.1.0
)
