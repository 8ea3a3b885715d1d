package backendcuda

import (
	"fmt"
	"time"

	"github.com/minfer-go/minfer/cudart"
)

// Options of a backend. The zero value is useful.
type Options struct {
	Device  int            // ordinal of the GPU
	Driver  *cudart.Driver // nil: the machine's; tests put a fake or a faulty one here
	Kernels []byte         // fatbin of package kernelscuda; nil: found as kernelscuda.Find does
	// KernelsPath says where the fatbin is, if Kernels is nil; "": beside the program or in the user's cache.
	KernelsPath string

	NoGraph          bool // launch kernels one by one, never capture and replay
	NoPrefillCapture bool // capture steps of one output row only
	NoPrefillGEMM    bool // prefill by the kernels of decoding, with their bits
	NoPrewarm        bool // load kernels when first used (the control of a test)
	NoTiles          bool // weights in the file's layout only
	Explicit         bool // build CUDA graphs node by node instead of capturing them (docs/adr/0003)
	Capture          CaptureMode

	Deadline time.Duration // of every wait for the device; 0: 60 s
	Profile  bool          // time every kernel: no replay; see Backend.Profile
	Notice   func(string)  // told what a user should know, a sentence at a time; may be nil
}

// CaptureMode says which driver calls spoil a capture.
type CaptureMode uint8

const (
	CaptureThreadLocal CaptureMode = iota // unsafe calls of the capturing thread: what production uses
	CaptureGlobal                         // unsafe calls of any thread
	CaptureRelaxed                        // none
)

var captureModes = [...]cudart.CaptureMode{cudart.CaptureThreadLocal, cudart.CaptureGlobal, cudart.CaptureRelaxed}

const defaultDeadline = 60 * time.Second

// Validate reports what is wrong with the options, or nil.
func (o Options) Validate() error {
	switch {
	case o.Device < 0:
		return fmt.Errorf("backendcuda: device %d: want 0 or more", o.Device)
	case o.Deadline < 0:
		return fmt.Errorf("backendcuda: deadline %v: want 0 (%v) or more", o.Deadline, defaultDeadline)
	case int(o.Capture) >= len(captureModes):
		return fmt.Errorf("backendcuda: there is no capture mode %d", o.Capture)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Deadline == 0 {
		o.Deadline = defaultDeadline
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	return o
}
