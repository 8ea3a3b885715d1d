package cudart_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
)

// Clusters and programmatic order, directly, captured and as explicit nodes.
func TestDeviceHopper(t *testing.T) {
	w := newDevice(t)
	if info := w.c.Device(); info.Major < 9 {
		t.Skipf("needs sm_90, this is %v", &info)
	}
	w.do(func(b *cudart.Bound) {
		r := newRig(t, b, w.image)
		lib, err := b.LoadLibrary([]byte(hopperPTX))
		require.NoError(t, err)
		cluster, err := lib.Kernel(b, "cluster")
		require.NoError(t, err)
		chain, err := lib.Kernel(b, "chain")
		require.NoError(t, err)
		p := addParams{r.m.Ptr(), 0, 1}
		word := func() uint32 {
			require.NoError(t, b.CopyToHost(r.s, r.p, 0, r.m.Ptr(), 4))
			require.NoError(t, r.s.Wait(b, second, "a word"))
			return *(*uint32)(unsafe.Pointer(&r.p.Bytes()[0]))
		}
		cfg := cudart.LaunchConfig{GridX: 8, BlockX: 32, ClusterX: 4}
		require.NoError(t, b.Launch(r.s, cluster, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p)))
		require.EqualValues(t, 4, word())
		full := cudart.LaunchConfig{GridX: 8, GridY: 1, GridZ: 1, BlockX: 32, BlockY: 1, BlockZ: 1, ClusterX: 8, ClusterY: 1, ClusterZ: 1}
		n, err := cluster.Clusters(b, &full)
		require.NoError(t, err)
		require.Positive(t, n)
		bad := cudart.LaunchConfig{GridX: 7, BlockX: 32, ClusterX: 2}
		require.Error(t, b.Launch(r.s, cluster, &bad, unsafe.Pointer(&p), unsafe.Sizeof(p)))

		// chain: x ← 3x + a; order shows in the result.
		want := func(x uint32, adds ...uint32) uint32 {
			for _, a := range adds {
				x = 3*x + a
			}
			return x
		}
		adds := []uint32{1, 2, 3, 4, 5, 6, 7}
		prog := cudart.LaunchConfig{GridX: 1, BlockX: 1, Programmatic: 1}
		all := func() error {
			for _, a := range adds {
				p := addParams{r.m.Ptr(), 0, a}
				if err := b.Launch(r.s, chain, &prog, unsafe.Pointer(&p), unsafe.Sizeof(p)); err != nil {
					return err
				}
			}
			return nil
		}
		require.NoError(t, b.Memset32(r.s, r.m.Ptr(), 1, 1))
		require.NoError(t, all())
		require.Equal(t, want(1, adds...), word())
		captured, err := b.Capture(r.s, cudart.CaptureThreadLocal, all)
		require.NoError(t, err)
		built, err := b.NewGraph()
		require.NoError(t, err)
		var last []cudart.Node
		for _, a := range adds {
			p := addParams{r.m.Ptr(), 0, a}
			node, err := built.AddKernel(b, last, chain, &prog, unsafe.Pointer(&p), unsafe.Sizeof(p))
			require.NoError(t, err)
			last = []cudart.Node{node}
		}
		for name, g := range map[string]*cudart.Graph{"captured": captured, "built": built} {
			x, err := g.Instantiate(b)
			require.NoError(t, err, name)
			require.NoError(t, b.Memset32(r.s, r.m.Ptr(), 1, 1))
			require.NoError(t, x.Launch(b, r.s), name)
			require.NoError(t, x.Launch(b, r.s), name)
			require.Equal(t, want(want(1, adds...), adds...), word(), name)
			require.NoError(t, x.Destroy(b))
		}
		clustered, err := b.NewGraph()
		require.NoError(t, err)
		node, err := clustered.AddKernel(b, nil, cluster, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p))
		require.NoError(t, err)
		x, err := clustered.Instantiate(b)
		require.NoError(t, err)
		require.NoError(t, x.SetKernel(b, node, cluster, &cfg, unsafe.Pointer(&p), unsafe.Sizeof(p)))
		require.NoError(t, x.Launch(b, r.s))
		require.EqualValues(t, 4, word(), "a node keeps its cluster shape")
		require.NoError(t, x.Destroy(b))
		for _, g := range []*cudart.Graph{captured, built, clustered} {
			require.NoError(t, g.Destroy(b))
		}
		require.NoError(t, lib.Unload(b))
		r.close(b)
	})
	w.clean()
}
