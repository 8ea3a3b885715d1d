module github.com/minfer-go/minfer/backend-cuda

go 1.26.0
