//go:build !cgo || !linux

package sys

// Open reports that this program cannot reach a CUDA driver.
func Open() (*Table, error) {
	return nil, &UnavailableError{NoCgo: true, Reason: "this program was built without cgo (or not for Linux), so it cannot open libcuda.so.1; build it with CGO_ENABLED=1"}
}
