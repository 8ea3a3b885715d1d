package cudart_test

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
)

// What the calls cost here, for the record; only the order of magnitude is checked.
func TestDeviceCosts(t *testing.T) {
	table := deviceTable(t)
	h := newHot(t, table, deviceKernels())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	measure := func(what string, n int, f func(b *cudart.Bound) error) time.Duration {
		var d time.Duration
		require.NoError(t, h.c.Do(func(b *cudart.Bound) error {
			if err := f(b); err != nil {
				return err
			}
			if err := h.r.s.Wait(b, second, what); err != nil {
				return err
			}
			start := time.Now()
			for range n {
				if err := f(b); err != nil {
					return err
				}
			}
			d = time.Since(start) / time.Duration(n)
			return h.r.s.Wait(b, second, what)
		}))
		t.Logf("%-40s %v", what, d)
		return d
	}
	do := measure("Do, nested", 1000, func(*cudart.Bound) error { return h.c.Do(func(*cudart.Bound) error { return nil }) })
	require.Less(t, do, 20*time.Microsecond)
	measure("Launch", 500, func(b *cudart.Bound) error { return h.r.launch(b, 1) })
	measure("Exec.Launch of one node", 500, func(b *cudart.Bound) error { return h.x.Launch(b, h.r.s) })
	measure("Exec.SetKernel", 500, func(b *cudart.Bound) error {
		p := addParams{h.r.m.Ptr(), rigWords, 1}
		return h.x.SetKernel(b, h.n, h.r.add, &rigLaunch, unsafe.Pointer(&p), unsafe.Sizeof(p))
	})
	measure("Stream.Query of an idle stream", 500, func(b *cudart.Bound) error { _, err := h.r.s.Query(b); return err })
	measure("Launch and Wait", 200, func(b *cudart.Bound) error {
		if err := h.r.launch(b, 1); err != nil {
			return err
		}
		return h.r.s.Wait(b, second, "one")
	})
	require.NoError(t, h.c.Do(func(b *cudart.Bound) error {
		k := h.r.kernel(b, "spin")
		for _, spin := range []time.Duration{cudart.DefaultSpin, 5 * time.Millisecond} {
			h.r.s.Spin = spin
			var worst, sum time.Duration
			const n = 50
			for range n {
				start := time.Now()
				h.r.spin(b, k, time.Millisecond)
				if err := h.r.s.Wait(b, second, "a millisecond"); err != nil {
					return err
				}
				late := time.Since(start) - time.Millisecond
				worst, sum = max(worst, late), sum+late
			}
			t.Logf("a kernel of 1 ms with Spin %v: seen %v late on average, %v at worst", spin, sum/n, worst)
		}
		h.r.s.Spin = cudart.DefaultSpin
		return nil
	}))
}
