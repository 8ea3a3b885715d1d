package cudart

import (
	"fmt"

	"github.com/minfer-go/minfer/cudart/sys"
)

// DeviceInfo holds a device's identity and limits, as the driver reports them. Bytes unless another unit is named.
type DeviceInfo struct {
	Ordinal int
	Name    string
	UUID    [16]byte
	PCI     string // "0000:17:00.0"
	Memory  int64  // all of it; Bound.MemInfo says what is free
	Major   int    // compute capability
	Minor   int

	Multiprocessors     int
	WarpSize            int // threads
	MaxThreadsPerBlock  int
	MaxThreadsPerSM     int
	MaxBlocksPerSM      int
	MaxGridX            int // blocks
	MaxGridY            int
	MaxGridZ            int
	RegsPerBlock        int // 32-bit registers
	RegsPerSM           int
	SharedPerBlock      int // without opt-in
	SharedPerBlockOptin int // static and dynamic together, after Kernel.SetSharedLimit
	SharedPerSM         int
	SharedReserved      int // per block, taken by the system
	L2Bytes             int
	ClockKHz            int
	MemoryClockKHz      int
	MemoryBusBits       int
	AsyncEngines        int // copies that run at once beside kernels
	ComputeMode         int // sys.ComputeDefault, …
	Integrated          bool
	Cooperative         bool // cooperative launches
	Clusters            bool // cluster launches
}

// Arch is the compute capability as nvcc spells it: 90 for sm_90.
func (i *DeviceInfo) Arch() int { return i.Major*10 + i.Minor }

// PeakBandwidth is the memory's theoretical bytes a second (double data rate), 0 if the driver doesn't say.
func (i *DeviceInfo) PeakBandwidth() float64 {
	return 2 * float64(i.MemoryClockKHz) * 1e3 * float64(i.MemoryBusBits) / 8
}

func (i *DeviceInfo) String() string {
	return fmt.Sprintf("%s (device %d, sm_%d, %d SMs, %.1f GiB)", i.Name, i.Ordinal, i.Arch(), i.Multiprocessors, float64(i.Memory)/(1<<30))
}

// Count says how many devices there are; none is ErrUnavailable.
func (d *Driver) Count() (int, error) {
	if err := d.init(); err != nil {
		return 0, err
	}
	n, r := d.t.DeviceCount()
	if r == sys.Success && n == 0 {
		r = sys.NoDevice
	}
	if r != sys.Success {
		return 0, newError(d.t, "DeviceCount", r, "counting devices")
	}
	return n, nil
}

// Devices describes all devices, without making a context on any. None is ErrUnavailable.
func (d *Driver) Devices() ([]DeviceInfo, error) {
	n, err := d.Count()
	if err != nil {
		return nil, err
	}
	out := make([]DeviceInfo, n)
	for i := range out {
		if _, err := d.describe(i, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// describe fills info and gives the device's handle.
func (d *Driver) describe(ordinal int, info *DeviceInfo) (sys.Device, error) {
	fail := func(call string, r Result) error {
		return newError(d.t, call, r, fmt.Sprintf("asking about device %d", ordinal))
	}
	dev, r := d.t.DeviceGet(ordinal)
	if r != sys.Success {
		return 0, fail("DeviceGet", r)
	}
	*info = DeviceInfo{Ordinal: ordinal}
	if info.Name, r = d.t.DeviceName(dev); r != sys.Success {
		return 0, fail("DeviceName", r)
	}
	if info.UUID, r = d.t.DeviceUUID(dev); r != sys.Success {
		return 0, fail("DeviceUUID", r)
	}
	total, r := d.t.DeviceTotalMem(dev)
	if r != sys.Success {
		return 0, fail("DeviceTotalMem", r)
	}
	info.Memory = int64(total)
	var domain, bus, slot, integrated, cooperative, clusters int
	for _, a := range []struct {
		attr int
		to   *int
	}{
		{sys.AttrComputeMajor, &info.Major}, {sys.AttrComputeMinor, &info.Minor},
		{sys.AttrMultiprocessors, &info.Multiprocessors}, {sys.AttrWarpSize, &info.WarpSize},
		{sys.AttrMaxThreadsPerBlock, &info.MaxThreadsPerBlock}, {sys.AttrMaxThreadsPerSM, &info.MaxThreadsPerSM},
		{sys.AttrMaxBlocksPerSM, &info.MaxBlocksPerSM},
		{sys.AttrMaxGridX, &info.MaxGridX}, {sys.AttrMaxGridY, &info.MaxGridY}, {sys.AttrMaxGridZ, &info.MaxGridZ},
		{sys.AttrMaxRegistersPerBlock, &info.RegsPerBlock}, {sys.AttrMaxRegistersPerSM, &info.RegsPerSM},
		{sys.AttrMaxSharedPerBlock, &info.SharedPerBlock}, {sys.AttrMaxSharedPerBlockOpt, &info.SharedPerBlockOptin},
		{sys.AttrMaxSharedPerSM, &info.SharedPerSM}, {sys.AttrReservedShared, &info.SharedReserved},
		{sys.AttrL2Bytes, &info.L2Bytes}, {sys.AttrClockKHz, &info.ClockKHz},
		{sys.AttrMemoryClockKHz, &info.MemoryClockKHz}, {sys.AttrMemoryBusBits, &info.MemoryBusBits},
		{sys.AttrAsyncEngines, &info.AsyncEngines}, {sys.AttrComputeMode, &info.ComputeMode},
		{sys.AttrPCIDomain, &domain}, {sys.AttrPCIBus, &bus}, {sys.AttrPCIDevice, &slot},
		{sys.AttrIntegrated, &integrated}, {sys.AttrCooperativeLaunch, &cooperative}, {sys.AttrClusterLaunch, &clusters},
	} {
		if *a.to, r = d.t.DeviceAttribute(a.attr, dev); r != sys.Success {
			return 0, newError(d.t, "DeviceAttribute", r, fmt.Sprintf("asking for attribute %d of device %d", a.attr, ordinal))
		}
	}
	info.PCI = fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, slot)
	info.Integrated, info.Cooperative, info.Clusters = integrated != 0, cooperative != 0, clusters != 0
	return dev, nil
}
