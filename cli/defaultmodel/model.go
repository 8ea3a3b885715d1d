// Package defaultmodel embeds the model that minfer-cli runs when none is named: it tells very short stories.
package defaultmodel

import (
	_ "embed"
	"unsafe"
)

// Name of the embedded file.
const Name = "minfer-story-21m-q4_k_m.gguf"

//go:embed minfer-story-21m-q4_k_m.gguf
var file string

// Bytes of the file, which must not be written to.
func Bytes() []byte { return unsafe.Slice(unsafe.StringData(file), len(file)) }
