module github.com/minfer-go/minfer/cudart

go 1.26.0
