// A program that only reads and writes GGUF files.
package main

import (
	"bytes"
	"fmt"
	"log"

	"github.com/minfer-go/minfer/gguf"
)

func main() {
	var file bytes.Buffer
	w, err := gguf.NewWriter(&file, gguf.WriterOptions{})
	if err == nil {
		err = w.Set("general.name", "ok")
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		log.Fatal(err)
	}
	f, err := gguf.OpenBytes(file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	name, err := gguf.Need[string](f, "general.name")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(name)
}
