package backendcuda

import (
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
)

// The buffers that bandwidth is measured with: large beside a device's caches, small beside what is free.
const (
	mostProbe, leastProbe = 512 << 20, 128 << 20
	probeShare            = 4 // of the free memory, for each of two buffers
)

// ReadBandwidth measures the device's memory in GB/s: the best of a few copies of a large buffer on the device, counting each
// byte as read and as written. Where too little memory is free for that, the error wraps graph.ErrOutOfMemory.
func (b *Backend) ReadBandwidth() (gbs float64, err error) {
	const rounds = 5
	err = b.do(func(bd *cudart.Bound) (err error) {
		free, _, err := bd.MemInfo()
		if err != nil {
			return err
		}
		bytes := min(mostProbe, free/probeShare&^(1<<20-1))
		if bytes < leastProbe {
			return fmt.Errorf("backendcuda: %d MiB free, measuring bandwidth takes %d: %w", free>>20, leastProbe*probeShare>>20, graph.ErrOutOfMemory)
		}
		var mem [2]*cudart.Memory
		var events [2]*cudart.Event
		defer func() {
			for i := range mem {
				if mem[i] != nil {
					err = errors.Join(err, mem[i].Free(bd))
				}
				if events[i] != nil {
					err = errors.Join(err, events[i].Destroy(bd))
				}
			}
		}()
		for i := range mem {
			if mem[i], err = bd.Alloc(bytes); err != nil {
				return err
			}
			if events[i], err = bd.NewEvent(true); err != nil {
				return err
			}
		}
		for range rounds {
			err := errors.Join(events[0].Record(bd, b.stream), bd.CopyDevice(b.stream, mem[1].Ptr(), mem[0].Ptr(), bytes), events[1].Record(bd, b.stream))
			if err != nil {
				return err
			}
			if err := b.stream.Wait(bd, b.opts.Deadline, "the measurement of bandwidth"); err != nil {
				return err
			}
			took, err := events[1].Since(bd, events[0])
			if err != nil {
				return err
			}
			gbs = max(gbs, 2*float64(bytes)/took.Seconds()/1e9)
		}
		return nil
	})
	return gbs, outOfMemory(err)
}
