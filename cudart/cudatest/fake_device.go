package cudatest

import (
	"fmt"

	"github.com/minfer-go/minfer/cudart/sys"
)

// attributes are an H200's.
var attributes = map[int]int{
	sys.AttrMaxThreadsPerBlock: 1024, sys.AttrMaxGridX: 1<<31 - 1, sys.AttrMaxGridY: 65535, sys.AttrMaxGridZ: 65535,
	sys.AttrMaxSharedPerBlock: 48 << 10, sys.AttrWarpSize: 32, sys.AttrMaxRegistersPerBlock: 65536, sys.AttrClockKHz: 1980000,
	sys.AttrMultiprocessors: 132, sys.AttrConcurrentKernels: 1, sys.AttrMemoryClockKHz: 3201000, sys.AttrMemoryBusBits: 6016,
	sys.AttrL2Bytes: 60 << 20, sys.AttrMaxThreadsPerSM: 2048, sys.AttrAsyncEngines: 3, sys.AttrComputeMajor: 9, sys.AttrComputeMinor: 0,
	sys.AttrMaxSharedPerSM: 228 << 10, sys.AttrMaxRegistersPerSM: 65536, sys.AttrCooperativeLaunch: 1, sys.AttrMaxBlocksPerSM: 32,
	sys.AttrReservedShared: 1024, sys.AttrMaxSharedPerBlockOpt: 227 << 10, sys.AttrClusterLaunch: 1,
}

// plain counts a call that needs no context and locks mu, which the caller unlocks.
func (f *Fake) plain(name string) sys.Result {
	f.mu.Lock()
	f.counts[name]++
	if !f.started {
		return sys.NotInitialized
	}
	return sys.Success
}

func (f *Fake) init() sys.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["Init"]++
	if len(f.devices) == 0 {
		return sys.NoDevice
	}
	f.started = true
	return sys.Success
}

func (f *Fake) driverVersion() (int, sys.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts["DriverVersion"]++
	return f.opt.Driver, sys.Success
}

func (f *Fake) deviceCount() (int, sys.Result) {
	defer f.mu.Unlock()
	if r := f.plain("DeviceCount"); r != sys.Success {
		return 0, r
	}
	return len(f.devices), sys.Success
}

func (f *Fake) deviceGet(i int) (sys.Device, sys.Result) {
	defer f.mu.Unlock()
	r := f.plain("DeviceGet")
	if r == sys.Success && (i < 0 || i >= len(f.devices)) {
		r = sys.InvalidDevice
	}
	return sys.Device(i), r
}

func (f *Fake) deviceName(d sys.Device) (string, sys.Result) {
	defer f.mu.Unlock()
	return fmt.Sprintf("Fake %d", d), f.plain("DeviceName")
}

func (f *Fake) deviceUUID(d sys.Device) ([16]byte, sys.Result) {
	defer f.mu.Unlock()
	return [16]byte{0xfa, 0xce, 15: byte(d)}, f.plain("DeviceUUID")
}

func (f *Fake) deviceTotalMem(sys.Device) (uint64, sys.Result) {
	defer f.mu.Unlock()
	r := f.plain("DeviceTotalMem")
	return uint64(f.opt.Memory), r
}

func (f *Fake) deviceAttribute(attr int, _ sys.Device) (int, sys.Result) {
	defer f.mu.Unlock()
	r := f.plain("DeviceAttribute")
	return f.attribute(attr), r
}

func (f *Fake) attribute(attr int) int {
	if v, ok := f.opt.Attributes[attr]; ok {
		return v
	}
	return attributes[attr]
}

func (f *Fake) ctxRetain(dev sys.Device) (sys.Context, sys.Result) {
	defer f.mu.Unlock()
	if r := f.plain("PrimaryCtxRetain"); r != sys.Success {
		return 0, r
	}
	d := f.devices[dev]
	d.refs++
	return d.ctx, sys.Success
}

// ctxRelease takes everything of a context along with its last user, its failure too.
func (f *Fake) ctxRelease(dev sys.Device) sys.Result {
	defer f.mu.Unlock()
	if r := f.plain("PrimaryCtxRelease"); r != sys.Success {
		return r
	}
	d := f.devices[dev]
	if d.refs == 0 {
		return sys.InvalidContext
	}
	if d.refs--; d.refs == 0 {
		d.sticky = sys.Success
	}
	return sys.Success
}

func (f *Fake) ctxSetCurrent(c sys.Context) sys.Result {
	defer f.mu.Unlock()
	if r := f.plain("CtxSetCurrent"); r != sys.Success {
		return r
	}
	for _, d := range f.devices {
		if c == 0 || d.ctx == c && d.refs > 0 {
			f.current[thread()] = c
			return sys.Success
		}
	}
	return sys.InvalidContext
}

func (f *Fake) ctxGetCurrent() (sys.Context, sys.Result) {
	defer f.mu.Unlock()
	r := f.plain("CtxGetCurrent")
	return f.current[thread()], r
}

func (f *Fake) ctxSynchronize() sys.Result {
	f.run.Lock()
	defer f.run.Unlock()
	d, r := f.guarded("CtxSynchronize")
	f.mu.Unlock()
	if r != sys.Success {
		return r
	}
	return f.drainDevice(d, "CtxSynchronize")
}
