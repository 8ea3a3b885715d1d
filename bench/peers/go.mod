module github.com/minfer-go/minfer/bench/peers

go 1.26.0
