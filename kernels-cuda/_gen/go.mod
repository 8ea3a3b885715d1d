module github.com/minfer-go/minfer/kernels-cuda/_gen

go 1.26.0
