// A program that only builds graphs and draws them.
package main

import (
	"bytes"
	"fmt"
	"log"
	"strings"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

func main() {
	p := graph.Params{Rows: 2, Outputs: 1, Seqs: 1, Runs: 1, Cells: 8, KeyType: quant.F16, ValueType: quant.F16}
	b := graph.NewBuilder(p)
	w := &graph.Weight{Name: "token_embd.weight", Type: quant.F32, Shape: graph.Shape{16, 32}}
	b.Output(b.Silu(b.GetRows(w, b.Input(graph.InTokens))))
	g, err := b.Graph()
	if err != nil {
		log.Fatal(err)
	}
	var dot bytes.Buffer
	if err := graph.WriteDOT(&dot, g, nil, nil); err != nil {
		log.Fatal(err)
	}
	if !strings.Contains(dot.String(), "token_embd") {
		log.Fatalf("the drawing doesn't name the weight: %s", dot.String())
	}
	fmt.Println("ok")
}
