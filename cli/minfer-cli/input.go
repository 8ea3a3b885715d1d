package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxInput bounds a text or file that is read whole: the longest context takes a small part of it.
const maxInput = 64 << 20

// text gives what the user said in arguments, in a file, or on standard input.
func (a *app) text(args []string, file string) (string, error) {
	switch {
	case file != "" && len(args) > 0:
		return "", usage("a text and -f together: give one of them")
	case file != "":
		return a.wait(func() (string, error) { return readFile("-f", file) })
	case len(args) > 0:
		return strings.Join(args, " "), nil
	}
	return a.readStdin()
}

// readStdin reads standard input to its end, or to Ctrl-C.
func (a *app) readStdin() (string, error) {
	return a.wait(func() (string, error) { return readAll("standard input", a.stdin) })
}

// wait runs a read that may never end, as that of a terminal or a pipe, until Ctrl-C.
func (a *app) wait(read func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := read()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-a.ctx.Done():
		return "", a.ctx.Err()
	}
}

// readFile reads a file that the user named with a flag or argument called what.
func readFile(what, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	defer f.Close()
	return readAll(what, f)
}

// readTemplate reads the file of a --template flag; no flag gives "", the model's own template.
func readTemplate(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	source, err := readFile("--template", path)
	if err == nil && source == "" {
		err = fmt.Errorf("--template: %s is empty", path)
	}
	return source, err
}

func readAll(what string, r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if len(data) > maxInput {
		return "", fmt.Errorf("%s: longer than the limit of %d MiB", what, maxInput>>20)
	}
	return string(data), nil
}

// isTerminal reports whether a stream is a terminal, or another device of characters.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
