// Package defaultmodel embeds the model that minfer-cli runs when none is named: it tells very short stories. Built with the tag
// minfer_no_default_model there is none: for programs that are carried to a machine with a device and never run without -m.
package defaultmodel

import "unsafe"

// Name of the embedded file.
const Name = "minfer-story-21m-q4_k_m.gguf"

// Bytes of the file, which must not be written to; empty if none is embedded.
func Bytes() []byte { return unsafe.Slice(unsafe.StringData(file), len(file)) }
