//go:build !unix

package emulator

// lock does nothing here: processes at the same time may build twice.
func lock(string) (unlock func() error, err error) { return func() error { return nil }, nil }
