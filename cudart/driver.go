// Package cudart is the CUDA driver API behind Go types: devices, contexts, streams, events, memory, kernels and
// graphs. It opens the driver at run time (package sys), needs no toolkit, and compiles without cgo, where every use
// gives ErrUnavailable.
//
// A context is current per OS thread while goroutines migrate, so every device operation is a method of Bound (or takes
// one), and a Bound exists only inside Context.Do, which holds the thread. The rules for launches, waits, captures and
// failures are in docs/gpu-safety.md.
package cudart

import (
	"errors"
	"fmt"
	"sync"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Driver is a driver of the process. Safe for goroutines.
type Driver struct {
	t *sys.Table

	mu       sync.Mutex
	ready    bool
	version  int
	contexts map[int]*Context // by ordinal, those retained
}

// Open gives the process's driver, opened on the first call. Without one the error is ErrUnavailable and says what to do.
func Open() (*Driver, error) {
	processDriver.once.Do(func() {
		t, err := sys.Open()
		if err != nil {
			processDriver.err = openError(err)
			return
		}
		processDriver.d = NewDriver(t)
	})
	if processDriver.err != nil {
		return nil, processDriver.err
	}
	if err := processDriver.d.init(); err != nil {
		return nil, err
	}
	return processDriver.d, nil
}

var processDriver struct {
	once sync.Once
	d    *Driver
	err  error
}

// Available says whether there is a driver with at least one device: nil, or why not and what to do (ErrUnavailable).
func Available() error {
	d, err := Open()
	if err != nil {
		return err
	}
	_, err = d.Count()
	return err
}

// NewDriver makes a driver of a function table: a fake, or the real one with failures injected (package cudatest).
// The table's Init is called by the first method that needs it.
func NewDriver(t *sys.Table) *Driver { return &Driver{t: t, contexts: map[int]*Context{}} }

func openError(err error) error {
	var u *sys.UnavailableError
	advice := "install NVIDIA's driver for Linux; in a container, start it with its devices (docker run --gpus all)"
	if !errors.As(err, &u) || u.Symbol != "" || u.NoCgo {
		advice = "the CPU backend needs none of this"
	}
	return fmt.Errorf("cudart: %w: %w; %s", ErrUnavailable, err, advice)
}

// init starts the driver; a failure is tried again by the next call.
func (d *Driver) init() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.initLocked()
}

func (d *Driver) initLocked() error {
	if d.ready {
		return nil
	}
	if r := d.t.Init(); r != sys.Success {
		e := newError(d.t, "Init", r, "starting the CUDA driver")
		if e.kind == nil || e.kind == ErrInvalid || e.kind == ErrOutOfMemory {
			e.kind = ErrUnavailable // whatever it is, there is no CUDA in this process
		}
		return e
	}
	v, r := d.t.DriverVersion()
	if r != sys.Success {
		return newError(d.t, "DriverVersion", r, "asking for the driver's version")
	}
	d.version, d.ready = v, true
	return nil
}

// Version is the newest CUDA that the driver supports, as major·1000 + minor·10: 12040 is CUDA 12.4.
func (d *Driver) Version() (int, error) {
	if err := d.init(); err != nil {
		return 0, err
	}
	return d.version, nil
}

// Require refuses a driver older than the CUDA version that built the kernels (ErrUnavailable). Within one major
// version older drivers run newer binary code, so only the major number counts.
func (d *Driver) Require(built int) error {
	v, err := d.Version()
	if err != nil {
		return err
	}
	if v/1000 < built/1000 {
		return fmt.Errorf("cudart: %w: the driver supports CUDA %s and the kernels were built with CUDA %s; install a driver for CUDA %d.0 or later, "+
			"or build the kernels with an nvcc of CUDA %d", ErrUnavailable, VersionString(v), VersionString(built), built/1000, v/1000)
	}
	return nil
}

// VersionString writes 12040 as "12.4".
func VersionString(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Table is the function table under the driver, for tests that wrap it.
func (d *Driver) Table() *sys.Table { return d.t }
