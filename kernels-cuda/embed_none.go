//go:build !minfer_embed_kernels

package kernelscuda

var embedded []byte
