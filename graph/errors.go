package graph

import "errors"

// Sentinels that errors of this package and of backends wrap.
var (
	ErrUnsupported = errors.New("unsupported")
	ErrOutOfMemory = errors.New("out of memory")
)
