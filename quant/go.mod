module github.com/minfer-go/minfer/quant

go 1.26.0
