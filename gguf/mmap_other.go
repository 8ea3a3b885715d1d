//go:build !unix

package gguf

// openSource opens the file at path for reading. Without mmap each tensor is read when it is asked for.
func openSource(path string) (source, error) {
	f, n, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	return &reader{ReaderAt: f, n: n, close: f.Close}, nil
}
