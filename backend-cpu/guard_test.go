package backendcpu

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/cpuid/v2"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/backend-cpu/internal/matmul"
)

// offered lists the instruction paths that the processor has, slowest first: by the kernel's list of its flags where there is one, so
// that cpuid isn't only compared with itself.
func offered(t *testing.T) []string {
	t.Helper()
	paths := []string{"generic"}
	if runtime.GOARCH != "amd64" || !assembly {
		return paths
	}
	has := func(flag string, id cpuid.FeatureID) bool { return cpuid.CPU.Supports(id) }
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		_, rest, ok := strings.Cut(string(info), "\nflags")
		require.True(t, ok)
		line, _, _ := strings.Cut(rest, "\n")
		flags := strings.Fields(line)
		has = func(flag string, _ cpuid.FeatureID) bool { return slices.Contains(flags, flag) }
	}
	if has("avx2", cpuid.AVX2) && has("fma", cpuid.FMA3) && has("f16c", cpuid.F16C) {
		paths = append(paths, "avx2")
		if has("avx512f", cpuid.AVX512F) && has("avx512bw", cpuid.AVX512BW) && has("avx512vl", cpuid.AVX512VL) && has("avx512dq", cpuid.AVX512DQ) &&
			has("avx512_vnni", cpuid.AVX512VNNI) {
			paths = append(paths, "avx512-vnni")
		}
	}
	return paths
}

// TestGuardInstructionPath: the best path that the processor offers is in use, or the one that is forced, in the matrix products and in the
// other ops; and no build or machine silently falls back to a slower one.
//
// Seen failing with Best giving AVX2 first, with New making the kernel of matmul.Generic whatever the options, and with vec.New(false).
func TestGuardInstructionPath(t *testing.T) {
	want := offered(t)
	require.Equal(t, want, Paths())
	t.Log("offered:", want)
	for _, force := range append([]string{""}, want...) {
		b, err := New(Options{Path: force})
		require.NoError(t, err)
		path := force
		if force == "" {
			path = want[len(want)-1]
		}
		require.Equal(t, path, b.Stats().Path, "forced: %q", force)
		require.Equal(t, path, b.kernel.Path().String(), "products, forced: %q", force)
		require.Equal(t, strings.TrimSuffix(path, "-vnni"), b.vec.Path(), "other ops, forced: %q", force)
		require.Contains(t, b.Describe(), path)
		require.NoError(t, b.Close())
	}
	require.Equal(t, want[len(want)-1], matmul.Best().String())
}
