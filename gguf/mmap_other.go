//go:build !unix

package gguf

import (
	"fmt"
	"os"
)

// openSource opens the file at path for reading. Without mmap each tensor is read when it is asked for.
func openSource(path string) (source, error) {
	// Ask before opening: opening a pipe would wait for a writer.
	if st, err := os.Stat(path); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: no regular file (%s)", path, st.Mode().Type())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &reader{ReaderAt: f, n: st.Size(), close: f.Close}, nil
}
