package gguf

import (
	"fmt"
	"os"
)

// openRegular opens the regular file at path for reading and gives its length.
func openRegular(path string) (f *os.File, n int64, err error) {
	// Ask before opening: opening a pipe would wait for a writer.
	if st, err := os.Stat(path); err != nil {
		return nil, 0, err
	} else if !st.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: no regular file (%s)", path, st.Mode().Type())
	}
	if f, err = os.Open(path); err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}
