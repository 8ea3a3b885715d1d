package kerneltest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart"
	kernelscuda "github.com/minfer-go/minfer/kernels-cuda"
	"github.com/minfer-go/minfer/kernels-cuda/kernelstest"
)

// kernelsDir has the kernels' sources and, under _emu, the emulator that runs them on the CPU.
const kernelsDir = "../../kernels-cuda"

// TestEmulated runs the cases of small shapes with the kernels' sources on the CPU: arithmetic and indexing, on machines
// without a device. Speed, and what threads do to each other, are for TestKernels.
func TestEmulated(t *testing.T) {
	if *group != "" || *speed {
		t.Skip("a device is asked for")
	}
	if _, err := os.Stat(kernelsDir); err != nil {
		t.Skipf("needs the kernels' sources: %v", err)
	}
	ctx, err := cudart.NewDriver(kernelstest.Emulate(t, kernelsDir)).Retain(0)
	require.NoError(t, err)
	var k *kernelscuda.Kernels
	require.NoError(t, ctx.Do(func(b *cudart.Bound) (err error) { k, err = kernelscuda.Load(b, kernelstest.Image); return err }))
	small, columns = true, 19
	for _, name := range groupNames() {
		for _, c := range groups()[name] {
			t.Run(c.name, func(t *testing.T) { require.NoError(t, onRig(ctx, k, c.run)) })
		}
	}
	require.NoError(t, ctx.Do(k.Close))
	require.NoError(t, ctx.Release())
}
