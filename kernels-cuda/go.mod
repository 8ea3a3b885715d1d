module github.com/minfer-go/minfer/kernels-cuda

go 1.26.0
