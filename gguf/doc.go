// Package gguf reads and writes GGUF files, the container of llama.cpp's models: metadata keys with typed values, and
// tensors of the types in package quant.
//
// Versions 2 and 3, little-endian, are read, from a path ([Open]: mapped into memory, split files joined), from bytes
// ([OpenBytes]) or from an io.ReaderAt ([OpenReaderAt]). Opening reads the header only, never a tensor's bytes.
// [Get], [GetOr] and [Need] give metadata as Go values; [File.TensorBytes] gives a tensor's bytes, without copying
// where the file is mapped or already in memory. [Writer] streams a file out.
//
// A file is taken as hostile until checked: every count, length, dimension, alignment and offset is compared with the
// file's size before it is used. Errors say what, where and why, and wrap one of the sentinels of this package. Memory
// is bounded by a small multiple of the header's size.
//
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
package gguf
