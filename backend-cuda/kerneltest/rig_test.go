// Package kerneltest tests the kernels of matrix products on a device, one by one, against float64 references made with package
// quant, and measures them (-speed). Without a driver or the kernels' image it skips with the reason.
package kerneltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
)

var (
	imagePath = flag.String("kernels", "", "path of the kernels' image")
	group     = flag.String("group", "", "run this group of cases in this process (by default each group gets a process)")
	speed     = flag.Bool("speed", false, "measure instead of testing")
)

// deadline bounds every wait for the device.
const deadline = 60 * time.Second

type testCase struct {
	name string
	run  func(r *rig) error
}

// TestKernels runs every group in a process of its own: a fault of one kernel ends that process's context, not the others.
func TestKernels(t *testing.T) {
	if *speed {
		t.Skip("-speed measures")
	}
	ctx, image := open(t)
	if *group != "" {
		runGroup(t, ctx, image, groups()[*group])
		return
	}
	require.NoError(t, ctx.Release())
	for _, name := range groupNames() {
		t.Run(name, func(t *testing.T) { child(t, "^TestKernels$", "-group="+name) })
	}
}

// child runs this test again in a process of its own.
func child(t *testing.T, run string, args ...string) {
	exe, err := os.Executable()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, append([]string{"-test.run=" + run, "-test.v", "-kernels=" + *imagePath}, args...)...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	t.Logf("%s", out)
	require.NoError(t, err, "the group's process failed")
}

// open gives the device's context and the kernels' image, or skips.
func open(t *testing.T) (*cudart.Context, []byte) {
	d, err := cudart.Open()
	if err != nil {
		t.Skipf("needs an NVIDIA driver and device: %v", err)
	}
	image, err := kernelscuda.Find(*imagePath)
	if err != nil {
		t.Skipf("needs the kernels' image: %v", err)
	}
	ctx, err := d.Retain(0)
	if errors.Is(err, cudart.ErrUnavailable) {
		t.Skipf("needs a device: %v", err)
	}
	require.NoError(t, err)
	return ctx, image
}

func runGroup(t *testing.T, ctx *cudart.Context, image []byte, cases []testCase) {
	require.NotEmpty(t, cases, "no group of that name")
	var k *kernelscuda.Kernels
	require.NoError(t, ctx.Do(func(b *cudart.Bound) (err error) { k, err = kernelscuda.Load(b, image); return err }))
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if cause := ctx.Err(); cause != nil {
				t.Fatalf("not run, the context is dead: %v", cause)
			}
			err := onRig(ctx, k, c.run)
			line := map[string]any{"group": *group, "case": c.name, "ok": err == nil}
			if err != nil {
				line["error"] = err.Error()
			}
			emit(t, line)
			require.NoError(t, err)
		})
	}
	if ctx.Err() == nil {
		require.NoError(t, ctx.Do(k.Close))
	}
	if ctx.Err() == nil {
		require.NoError(t, ctx.Release())
	}
}

// emit prints a JSON line.
func emit(t *testing.T, line map[string]any) {
	data, err := json.Marshal(line)
	require.NoError(t, err)
	fmt.Printf("%s\n", data)
}

// rig is a stream and memory that is given back together.
type rig struct {
	b       *cudart.Bound
	s       *cudart.Stream
	k       *kernelscuda.Kernels
	staging *cudart.Pinned
	held    []*cudart.Memory
	direct  bool // launches without the programmatic attribute
}

func onRig(ctx *cudart.Context, k *kernelscuda.Kernels, f func(r *rig) error) error {
	return ctx.Do(func(b *cudart.Bound) (err error) {
		r := &rig{b: b, k: k}
		if r.s, err = b.NewStream(); err != nil {
			return err
		}
		if r.staging, err = b.AllocPinned(16 << 20); err != nil {
			return err
		}
		err = f(r)
		if ctx.Err() != nil {
			return err // nothing can be freed
		}
		for _, m := range r.held {
			err = errors.Join(err, m.Free(b))
		}
		return errors.Join(err, r.staging.Free(b), r.s.Destroy(b))
	})
}

// Launch makes a rig a queue.
func (r *rig) Launch(k *cudart.Kernel, cfg cudart.LaunchConfig, params unsafe.Pointer, n uintptr, _ kernelscuda.KernelInfo) error {
	if !r.direct {
		cfg.Programmatic = 1
	}
	return r.b.Launch(r.s, k, &cfg, params, n)
}

// guard is what stands before and after every buffer.
const guard = 512

const guardByte = 0xa5

// buffer is device memory of n bytes between guards.
type buffer struct {
	ptr cudart.Ptr
	n   int64
}

func (r *rig) alloc(n int64) (buffer, error) {
	n = max(n, 1)
	m, err := r.b.Alloc(n + 2*guard)
	if err != nil {
		return buffer{}, err
	}
	r.held = append(r.held, m)
	return buffer{m.Ptr() + guard, n}, r.b.Memset8(r.s, m.Ptr(), guardByte, n+2*guard)
}

// up copies bytes to a new buffer.
func (r *rig) up(data []byte) (buffer, error) {
	buf, err := r.alloc(int64(len(data)))
	for at := 0; err == nil && at < len(data); {
		n := copy(r.staging.Bytes(), data[at:])
		if err = r.b.CopyToDevice(r.s, buf.ptr+cudart.Ptr(at), r.staging, 0, int64(n)); err == nil {
			err = r.wait("an upload")
		}
		at += n
	}
	return buf, err
}

func (r *rig) wait(what string) error { return r.s.Wait(r.b, deadline, what) }

// down waits for what was queued, copies a buffer back and looks at its guards.
func (r *rig) down(buf buffer, what string) ([]byte, error) {
	if err := r.wait(what); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	all := make([]byte, buf.n+2*guard)
	for at := 0; at < len(all); {
		n := min(len(all)-at, len(r.staging.Bytes()))
		if err := r.b.CopyToHost(r.s, r.staging, 0, buf.ptr-guard+cudart.Ptr(at), int64(n)); err != nil {
			return nil, err
		}
		if err := r.wait("a download"); err != nil {
			return nil, err
		}
		at += copy(all[at:], r.staging.Bytes()[:n])
	}
	for i := range guard {
		if all[i] != guardByte || all[len(all)-1-i] != guardByte {
			return nil, fmt.Errorf("%s wrote outside its result of %d bytes", what, buf.n)
		}
	}
	return all[guard : guard+buf.n], nil
}

// bytesOf is a slice's memory.
func bytesOf[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

// valuesOf copies memory to a slice.
func valuesOf[T any](b []byte) []T {
	var zero T
	s := make([]T, len(b)/int(unsafe.Sizeof(zero)))
	copy(bytesOf(s), b)
	return s
}

func values[T any](r *rig, buf buffer, what string) ([]T, error) {
	b, err := r.down(buf, what)
	return valuesOf[T](b), err
}
