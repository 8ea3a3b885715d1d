package cudart

import (
	"fmt"
	"unsafe"

	"github.com/minfer-go/minfer/cudart/sys"
)

// LaunchConfig is a launch's grid, block, dynamic shared memory and attributes. Zero Y and Z mean 1.
type LaunchConfig = sys.LaunchConfig

// Launch puts a kernel on the stream. params is its one parameter struct of n bytes, plain data without Go pointers, of
// the layout that the kernel declares; it is copied before Launch returns. What the driver would refuse without a reason
// (grid, block, shared memory not opted into) is ErrInvalid with the figures. It allocates nothing.
//
// Programmatic lets the kernel start before the stream's previous one has ended; it must then wait itself
// (griddepcontrol.wait) before it reads that one's results. A device without the feature (before sm_90) ignores it.
func (b *Bound) Launch(s *Stream, k *Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uintptr) error {
	if err := b.on(s); err != nil {
		return err
	}
	if err := b.arguments(k, cfg, params, n); err != nil {
		return err
	}
	if r := b.t.Launch(k.h, &b.args.cfg, s.h, unsafe.Pointer(&b.args.params), uint64(n)); r != sys.Success {
		return b.c.fail("Launch", r, "launching "+describeLaunch(k, &b.args.cfg))
	}
	return nil
}

// arguments checks a launch and copies what describes it to b.args.
func (b *Bound) arguments(k *Kernel, cfg *LaunchConfig, params unsafe.Pointer, n uintptr) error {
	if err := k.of(b); err != nil {
		return err
	}
	if cfg == nil || n > MaxParams || n > 0 && params == nil {
		return invalid("launching kernel %s: %d bytes of parameters, of at most %d", k.name, n, MaxParams)
	}
	a := b.args
	a.cfg = *cfg
	c := &a.cfg
	c.GridY, c.GridZ = max(c.GridY, 1), max(c.GridZ, 1)
	c.BlockY, c.BlockZ = max(c.BlockY, 1), max(c.BlockZ, 1)
	if c.ClusterX != 0 {
		c.ClusterY, c.ClusterZ = max(c.ClusterY, 1), max(c.ClusterZ, 1)
	}
	if b.c.info.Major < 9 {
		c.Programmatic = 0
	}
	info := &b.c.info
	if c.GridX == 0 || c.BlockX == 0 || int64(c.GridX) > int64(info.MaxGridX) || int64(c.GridY) > int64(info.MaxGridY) ||
		int64(c.GridZ) > int64(info.MaxGridZ) || uint64(c.BlockX)*uint64(c.BlockY)*uint64(c.BlockZ) > uint64(k.attrs.MaxThreads) {
		return invalid("launching %s: at least one block and thread, at most %d × %d × %d blocks and %d threads",
			describeLaunch(k, c), info.MaxGridX, info.MaxGridY, info.MaxGridZ, k.attrs.MaxThreads)
	}
	if c.SharedBytes > k.shared.Load() {
		return invalid("launching %s: the kernel may have %d bytes of dynamic shared memory (SetSharedLimit)", describeLaunch(k, c), k.shared.Load())
	}
	copy(a.params[:n], unsafe.Slice((*byte)(params), n))
	return nil
}

func describeLaunch(k *Kernel, c *LaunchConfig) string {
	s := fmt.Sprintf("kernel %s, grid %d×%d×%d, block %d×%d×%d, %d bytes shared",
		k.name, c.GridX, c.GridY, c.GridZ, c.BlockX, c.BlockY, c.BlockZ, c.SharedBytes)
	if c.ClusterX != 0 {
		s += fmt.Sprintf(", cluster %d×%d×%d", c.ClusterX, c.ClusterY, c.ClusterZ)
	}
	return s
}
