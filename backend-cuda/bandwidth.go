package backendcuda

import (
	"errors"

	"github.com/minfer-go/minfer/cudart"
)

// ReadBandwidth measures the device's memory in GB/s: the best of a few copies of a large buffer on the device, counting each
// byte as read and as written.
func (b *Backend) ReadBandwidth() (gbs float64, err error) {
	const bytes, rounds = 512 << 20, 5
	err = b.do(func(bd *cudart.Bound) (err error) {
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
			gbs = max(gbs, 2*bytes/took.Seconds()/1e9)
		}
		return nil
	})
	return gbs, err
}
