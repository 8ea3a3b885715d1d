module github.com/minfer-go/minfer/backend-cuda

go 1.26.0

require (
	github.com/minfer-go/minfer/cudart v0.1.0
	github.com/minfer-go/minfer/graph v0.1.0
	github.com/minfer-go/minfer/kernels-cuda v0.1.0
	github.com/minfer-go/minfer/quant v0.1.0
	github.com/stretchr/testify v1.12.1
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect
