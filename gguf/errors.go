package gguf

import "errors"

var (
	// ErrCorrupt is wrapped by errors about files that break the format's rules.
	ErrCorrupt = errors.New("corrupt GGUF file")
	// ErrUnsupported is wrapped by errors about files that may be fine, but that this package doesn't read.
	ErrUnsupported = errors.New("unsupported GGUF file")
	// ErrMissingShard is wrapped, with the path, when a part of a split file isn't there.
	ErrMissingShard = errors.New("missing shard of a split GGUF file")
	// ErrNoKey is wrapped when a needed metadata key is absent.
	ErrNoKey = errors.New("no such metadata key")
	// ErrKind is wrapped when a metadata value has another type than asked for, or doesn't fit the Go type.
	ErrKind = errors.New("metadata value of another type")
	// ErrClosed is wrapped when a closed File is read.
	ErrClosed = errors.New("file is closed")
)
