package pool

import "syscall"

// yieldThread lets another thread of the machine have the core.
func yieldThread() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
