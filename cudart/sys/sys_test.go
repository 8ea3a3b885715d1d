package sys

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The list of symbols and the C enum that indexes their addresses are one order.
func TestSymbolOrder(t *testing.T) {
	source, err := os.ReadFile("driver_cgo.go")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("the test runs away from its sources")
	}
	require.NoError(t, err)
	var enum []string
	for _, m := range regexp.MustCompile(`(?m)^\tF_(cu\w+),$`).FindAllSubmatch(source, -1) {
		enum = append(enum, string(m[1]))
	}
	require.Equal(t, append(append([]string{}, requiredSymbols...), optionalSymbols...), enum)
}

// Names of results go there and back, in any case and with or without their prefix.
func TestResultNames(t *testing.T) {
	require.Equal(t, "CUDA_ERROR_ILLEGAL_ADDRESS", IllegalAddress.String())
	require.Equal(t, "CUresult 12345", Result(12345).String())
	for _, name := range ResultNames() {
		r, ok := ResultByName("cuda_error_" + name)
		require.True(t, ok, name)
		require.Equal(t, prefix+name, r.String())
	}
	_, ok := ResultByName("NO_SUCH_NAME")
	require.False(t, ok)
}

// A failure injected by name replaces that call alone, with zero values beside it, and nil functions stay nil.
func TestIntercept(t *testing.T) {
	base := &Table{
		Init:        func() Result { return Success },
		DeviceCount: func() (int, Result) { return 3, Success },
	}
	var seen []string
	tab := Intercept(base, func(name string) Result {
		seen = append(seen, name)
		if name == "DeviceCount" && len(seen) == 3 {
			return OutOfMemory
		}
		return Success
	})
	if r := tab.Init(); r != Success {
		t.Fatalf("Init: %d", r)
	}
	if n, r := tab.DeviceCount(); n != 3 || r != Success {
		t.Fatalf("DeviceCount passes through: got %d, %d", n, r)
	}
	if n, r := tab.DeviceCount(); n != 0 || r != OutOfMemory {
		t.Fatalf("DeviceCount, second call: got %d, %d", n, r)
	}
	if n, r := base.DeviceCount(); n != 3 || r != Success {
		t.Fatalf("the wrapped table changed: got %d, %d", n, r)
	}
	if tab.GraphUpload != nil {
		t.Fatal("an absent optional function became present")
	}
}

// Open never panics: it gives a table whose required functions are all there, or an UnavailableError.
func TestOpen(t *testing.T) {
	tab, err := Open()
	if err == nil {
		if tab.Init == nil || tab.Launch == nil || tab.GraphLaunch == nil {
			t.Fatal("a required function is nil")
		}
		return
	}
	var u *UnavailableError
	if !errors.As(err, &u) || u.Reason == "" || tab != nil {
		t.Fatalf("want an UnavailableError with a reason and no table, got %v, %v", tab, err)
	}
}
