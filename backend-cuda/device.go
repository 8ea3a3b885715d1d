package backendcuda

import (
	"errors"
	"fmt"
	"sync"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

// device is what all backends on one GPU share: the context, the kernels and the weights. It is counted: the last user
// takes it down.
type device struct {
	key      deviceKey
	ctx      *cudart.Context
	info     cudart.DeviceInfo
	kernels  *kernelscuda.Kernels
	registry *registry
	users    int
}

type deviceKey struct {
	driver  *cudart.Driver
	ordinal int
	kernels *byte // first byte of the fatbin, if the caller gave one
	lazy    bool
}

var devices = struct {
	sync.Mutex
	open map[deviceKey]*device
}{open: map[deviceKey]*device{}}

// openDevice gives the shared device, opened if this is its first user. Kernels are loaded and their shared memory is
// opted in here, before any stream exists, so that nothing of this can happen inside a capture window.
func openDevice(o Options) (*device, error) {
	driver := o.Driver
	if driver == nil {
		var err error
		if driver, err = cudart.Open(); err != nil {
			return nil, err
		}
	}
	key := deviceKey{driver: driver, ordinal: o.Device, lazy: o.NoPrewarm}
	if len(o.Kernels) > 0 {
		key.kernels = &o.Kernels[0]
	}
	devices.Lock()
	defer devices.Unlock()
	if d := devices.open[key]; d != nil {
		d.users++
		return d, nil
	}
	fatbin := o.Kernels
	if fatbin == nil {
		var err error
		if fatbin, err = kernelscuda.Find(o.KernelsPath); err != nil {
			return nil, err
		}
	}
	if o.NoPrewarm { // without this function a kernel's code is loaded by its first launch
		t := *driver.Table()
		t.FuncLoad = nil
		driver = cudart.NewDriver(&t)
	}
	ctx, err := driver.Retain(o.Device)
	if err != nil {
		return nil, err
	}
	d := &device{key: key, ctx: ctx, info: ctx.Device(), users: 1}
	err = ctx.Do(func(b *cudart.Bound) (err error) {
		if d.kernels, err = kernelscuda.Load(b, fatbin); err != nil {
			return err
		}
		d.registry, err = newRegistry(d, b, o.Deadline)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("backendcuda: device %d: %w", o.Device, err), d.close())
	}
	devices.open[key] = d
	return d, nil
}

// release is called once by each user.
func (d *device) release() error {
	devices.Lock()
	defer devices.Unlock()
	if d.users--; d.users > 0 {
		return nil
	}
	delete(devices.open, d.key)
	return d.close()
}

func (d *device) close() error {
	err := d.ctx.Do(func(b *cudart.Bound) error {
		var errs []error
		if d.registry != nil {
			errs = append(errs, d.registry.close(b))
		}
		if d.kernels != nil {
			errs = append(errs, d.kernels.Close(b))
		}
		return errors.Join(errs...)
	})
	return errors.Join(err, d.ctx.Release())
}
