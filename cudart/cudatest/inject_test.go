package cudatest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Rules count per name from 1; names and results may be written in any case.
func TestInject(t *testing.T) {
	in, err := ParseInject("deviceget:2=invalid_device, DeviceName:2+=CUDA_ERROR_UNKNOWN")
	require.NoError(t, err)
	table := in.Wrap(New(Options{}).Table())
	require.Equal(t, sys.Success, table.Init())
	var got []sys.Result
	for range 3 {
		d, r := table.DeviceGet(0)
		got = append(got, r)
		_, r = table.DeviceName(d)
		got = append(got, r)
	}
	require.Equal(t, []sys.Result{0, 0, sys.InvalidDevice, sys.Unknown, 0, sys.Unknown}, got)
	require.Equal(t, 3, in.Counts()["DeviceGet"])
	require.Equal(t, []string{"DeviceGet:2=INVALID_DEVICE", "DeviceName:2=UNKNOWN", "DeviceName:3=UNKNOWN"}, in.Fired())
}

// A bad rule says what is bad and which spellings there are.
func TestInjectErrors(t *testing.T) {
	for rules, want := range map[string]string{
		"MemAlloc":                        "want NAME:N=RESULT",
		"MemAlloc=OUT_OF_MEMORY":          "want NAME:N=RESULT",
		"MemAllok:1=OUT_OF_MEMORY":        "MemAlloc, MemFree",
		"MemAlloc:0=OUT_OF_MEMORY":        `"0" is no number of a call`,
		"MemAlloc:x=OUT_OF_MEMORY":        `"x" is no number of a call`,
		"Launch:1=UNKNOWN,MemAlloc:1=OOM": "OUT_OF_MEMORY, STREAM_CAPTURE",
	} {
		_, err := ParseInject(rules)
		require.Error(t, err, rules)
		require.ErrorContains(t, err, want, rules)
	}
	in, err := ParseInject("")
	require.NoError(t, err)
	require.Empty(t, in.Fired())
}
