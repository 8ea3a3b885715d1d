//go:build minfer_embed_kernels

package kernelscuda

import _ "embed"

// Release builds carry the image: make kernels, then go build -tags minfer_embed_kernels.
//
//go:embed build/minfer-kernels.fatbin
var embedded []byte
