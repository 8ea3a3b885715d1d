package matmul

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProbes(t *testing.T) {
	data := make([]byte, 64<<20+100)
	for i := range data {
		data[i] = byte(i) // pages that were never written are all the same page
	}
	bw := ReadBandwidth(data)
	require.Greater(t, bw, 1e8)
	require.Zero(t, ReadBandwidth(nil))
	t.Logf("read %.1f GB/s", bw/1e9)
	for _, p := range Available() {
		peak := PeakInt8(p)
		require.Greater(t, peak, 1e7)
		t.Logf("%s: %.1f GMAC/s", p, peak/1e9)
	}
}
