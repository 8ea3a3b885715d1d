//go:build unix

package emulator

import (
	"errors"
	"os"
	"syscall"
)

// lock waits until no other process has the file locked. The lock ends with unlock or the process.
func lock(name string) (unlock func() error, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(&os.PathError{Op: "flock", Path: name, Err: err}, f.Close())
	}
	return f.Close, nil
}
