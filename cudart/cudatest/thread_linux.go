package cudatest

import "syscall"

// thread names the calling OS thread.
func thread() int { return syscall.Gettid() }
