package backendcuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/quant"
)

// planeKey identifies one copy of a weight on a device. The model is its file's fingerprint, so two models of one shape
// never see each other's bytes.
type planeKey struct {
	model, tensor string
	layout        Layout
}

// plane is a weight on the device, in one layout. It never changes once registered.
type plane struct {
	key   planeKey
	typ   quant.Type
	shape graph.Shape
	mem   *cudart.Memory
	users int
}

func (p *plane) ptr() cudart.Ptr { return p.mem.Ptr() }

// registry holds the weights of all models on a device. Loads are serialised and ordered on a stream of their own: never
// a blocking copy, so a capture window on another stream is not disturbed.
type registry struct {
	dev      *device
	deadline time.Duration

	mu      sync.Mutex
	planes  map[planeKey]*plane
	stream  *cudart.Stream
	upload  *uploader
	raw     *cudart.Memory   // file bytes on their way into another layout; grows, freed when loading is done
	pending bool             // something was queued since the last settle
	late    []*cudart.Memory // to be freed, when no stream hangs any more
}

func newRegistry(d *device, b *cudart.Bound, deadline time.Duration) (*registry, error) {
	s, err := b.NewStream()
	if err != nil {
		return nil, err
	}
	return &registry{dev: d, deadline: deadline, planes: map[planeKey]*plane{}, stream: s}, nil
}

// acquire gives the plane of w in a layout, uploading it if nobody has it yet. data is read before acquire returns.
func (r *registry) acquire(b *cudart.Bound, w *graph.Weight, layout Layout, data []byte) (*plane, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := planeKey{w.Model, w.Name, layout}
	if p := r.planes[key]; p != nil {
		if p.typ != w.Type || !slices.Equal(p.shape, w.Shape) {
			return nil, fmt.Errorf("backendcuda: tensor %q of model %q is on the device as %s %s, not %s %s", w.Name, w.Model, p.typ, p.shape, w.Type, w.Shape)
		}
		p.users++
		return p, nil
	}
	p := &plane{key: key, typ: w.Type, shape: slices.Clone(w.Shape), users: 1}
	if err := r.load(b, p, data); err != nil {
		if p.mem != nil {
			if ferr := r.free(b, p.mem); !errors.Is(err, cudart.ErrTimeout) { // else it is the same
				err = errors.Join(err, ferr)
			}
		}
		return nil, fmt.Errorf("backendcuda: tensor %q (%s, %s %s): %w", w.Name, layout, w.Type, w.Shape, err)
	}
	r.planes[key] = p
	return p, nil
}

func (r *registry) load(b *cudart.Bound, p *plane, data []byte) (err error) {
	rows, cols := 1, p.shape[len(p.shape)-1]
	if len(p.shape) == 2 {
		rows = p.shape[0]
	}
	if r.upload == nil {
		if r.upload, err = newUploader(b, r.deadline); err != nil {
			return err
		}
	}
	rowBytes, stride := int64(p.typ.RowBytes(cols)), rawRowBytes(p.typ, cols)
	if p.key.layout == LayoutRaw {
		if p.mem, err = b.Alloc(int64(rows) * stride); err != nil {
			return err
		}
		r.pending = true
		return r.upload.rows(b, r.stream, p.ptr(), data, rows, rowBytes, stride)
	}
	if p.mem, err = b.Alloc(tilePlanes(p.typ, rows, cols).Bytes()); err != nil {
		return err
	}
	if need := int64(rows) * stride; r.raw == nil || r.raw.Size() < need {
		if old := r.raw; old != nil {
			if err := r.settleLocked(b); err != nil {
				return err
			}
			r.raw = nil
			if err := old.Free(b); err != nil {
				return err
			}
		}
		if r.raw, err = b.Alloc(need); err != nil {
			return err
		}
	}
	r.pending = true
	if err := r.upload.rows(b, r.stream, r.raw.Ptr(), data, rows, rowBytes, stride); err != nil {
		return err
	}
	return r.dev.repack(b, r.stream, p, r.raw.Ptr(), rows, cols, stride)
}

// settle waits until all that was registered is on the device, and gives back the memory that only loading needs.
func (r *registry) settle(b *cudart.Bound) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.pending {
		return nil
	}
	if err := r.settleLocked(b); err != nil {
		return err
	}
	raw, upload := r.raw, r.upload
	r.raw, r.upload = nil, nil
	errs := []error{r.freeLate(b)}
	if raw != nil {
		errs = append(errs, r.free(b, raw))
	}
	if upload != nil {
		errs = append(errs, upload.close(b))
	}
	return errors.Join(errs...)
}

func (r *registry) settleLocked(b *cudart.Bound) error {
	if !r.pending {
		return nil
	}
	if err := r.stream.Wait(b, r.deadline, "the upload of weights"); err != nil {
		return err
	}
	r.pending = false
	return nil
}

// release gives a plane back; the last user's release frees it. No work that reads it may be queued any more.
func (r *registry) release(b *cudart.Bound, p *plane) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.users--; p.users > 0 {
		return nil
	}
	delete(r.planes, p.key)
	return r.free(b, p.mem)
}

// free gives memory back once the uploads are done. While a stream hangs it can't be: then it is kept for a later settle.
func (r *registry) free(b *cudart.Bound, m *cudart.Memory) error {
	err := r.settleLocked(b)
	if err == nil {
		err = m.Free(b)
	}
	if errors.Is(err, cudart.ErrTimeout) {
		r.late = append(r.late, m)
	}
	return err
}

// freeLate tries again what couldn't be freed.
func (r *registry) freeLate(b *cudart.Bound) error {
	late := r.late
	r.late = nil
	var errs []error
	for _, m := range late {
		errs = append(errs, r.free(b, m))
	}
	return errors.Join(errs...)
}

// bytes that all planes take.
func (r *registry) bytes() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.planes {
		n += p.mem.Size()
	}
	return n
}

func (r *registry) close(b *cudart.Bound) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := []error{r.settleLocked(b), r.freeLate(b)}
	for _, p := range r.planes {
		errs = append(errs, p.mem.Free(b))
	}
	clear(r.planes)
	if r.raw != nil {
		errs = append(errs, r.raw.Free(b))
	}
	if r.upload != nil {
		errs = append(errs, r.upload.close(b))
	}
	return errors.Join(append(errs, r.stream.Destroy(b))...)
}
