package backendcpu

import (
	"bytes"
	"os"
	"strconv"
)

// availableMemory is what the system can give without swapping (MemAvailable of proc(5)), in bytes.
func availableMemory() (n int64, ok bool) {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(data) {
		if rest, found := bytes.CutPrefix(line, []byte("MemAvailable:")); found {
			kb, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}
