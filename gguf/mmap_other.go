//go:build !unix

package gguf

import (
	"fmt"
	"os"
)

// openSource opens the file at path for reading. Without mmap each tensor is read when it is asked for.
func openSource(path string) (source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if !st.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("%s is no regular file (%s)", path, st.Mode().Type())
	}
	return &reader{ReaderAt: f, n: st.Size(), close: f.Close}, nil
}
