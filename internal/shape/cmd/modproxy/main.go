// Command modproxy packs the workspace's modules into a file-system module proxy; scripts/tidy uses it.
package main

import (
	"flag"
	"log"

	"github.com/minfer-go/minfer/internal/shape"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "folder that holds go.work")
	out := flag.String("out", "", "folder to write the proxy to")
	flag.Parse()
	if *out == "" {
		log.Fatal("modproxy: -out DIR is missing")
	}
	if err := shape.WriteProxy(*root, *out); err != nil {
		log.Fatal(err)
	}
}
