package devicetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/sys"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/enginetest"
)

// The probe: while one backend's capture window is open another loads a model's weights. A mode of capture is only safe if the
// window survives that, and the replayed steps are right. Each arm runs five times in a process of its own with a watchdog.

const probeEnv = "MINFER_TEST_PROBE"

// TestRegistrationDuringCapture holds the arm that production uses to 5 of 5 and records the others.
func TestRegistrationDuringCapture(t *testing.T) {
	if arm := os.Getenv(probeEnv); arm != "" {
		probe(t, arm)
		return
	}
	onDevice(t, backendcuda.Options{})
	for _, arm := range []struct {
		name string
		must bool
	}{{"thread_local", true}, {"global", false}, {"relaxed", false}, {"thread_local blocking", false}, {"thread_local shared", false}} {
		passed, how := 0, map[string]int{}
		for range 5 {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRegistrationDuringCapture$", "-test.v")
			cmd.Env = append(os.Environ(), probeEnv+"="+arm.name)
			out, err := cmd.CombinedOutput()
			switch {
			case err == nil && strings.Contains(string(out), "--- PASS"):
				passed++
			case ctx.Err() != nil:
				how["hangs"]++
			default:
				how[reason(string(out))]++
			}
			cancel()
		}
		t.Logf("%-22s %d of 5 %v", arm.name, passed, how)
		if arm.must {
			require.Equal(t, 5, passed, "%s: %v", arm.name, how)
		}
	}
}

// reason is the driver's error in a test's output.
func reason(out string) string {
	for word := range strings.FieldsSeq(out) {
		if strings.HasPrefix(word, "CUDA_ERROR_") {
			return strings.Trim(word, "(),.:")
		}
	}
	return "fails"
}

// probe is one run of an arm. "blocking" copies on the legacy default stream, which waits for every blocking stream, as a
// plain cuMemcpy does; "shared" registers on the stream that is being captured.
func probe(t *testing.T, arm string) {
	mode, how, _ := strings.Cut(arm, " ")
	driver, err := cudart.Open()
	require.NoError(t, err)
	table := *driver.Table()
	other := make(chan error, 1)
	begin, end := table.StreamBeginCapture, table.StreamEndCapture
	opened := false
	var window sys.Stream
	load := func() error {
		if how == "" {
			o := onDevice(t, backendcuda.Options{Driver: driver})
			m, err := engine.Load(filepath.Join(testdata, "models", "tiny-qwen3w-q6_k.gguf"), o.Load)
			if err != nil {
				return err
			}
			return m.Close()
		}
		return directCopy(driver, map[string]sys.Stream{"blocking": 0, "shared": window}[how])
	}
	table.StreamBeginCapture = func(s sys.Stream, m int) sys.Result {
		r := begin(s, m)
		opened, window = true, s
		return r
	}
	launch := table.Launch
	launched := 0
	table.Launch = func(k sys.Kernel, cfg *sys.LaunchConfig, s sys.Stream, params unsafe.Pointer, n uint64) sys.Result {
		if opened && launched == 0 { // in the middle of the window
			go func() { other <- load() }()
			select {
			case err := <-other:
				other <- err
			case <-time.After(2 * time.Second): // it waits for the window, or hangs
			}
		}
		if opened {
			launched++
		}
		return launch(k, cfg, s, params, n)
	}
	table.StreamEndCapture = func(s sys.Stream) (sys.Graph, sys.Result) {
		opened = false
		return end(s)
	}
	o := onDevice(t, backendcuda.Options{Driver: cudart.NewDriver(&table), Capture: captureModes[mode], Notice: func(s string) { t.Fatal(s) }})
	c := enginetest.NewContext(t, o.Model(t, "tiny-qwen3-f32"), engine.ContextOptions{Ctx: 128})
	_, got := greedy(t, c, []int32{1, 2, 3}, 30)
	require.Positive(t, launched, "no window was open")
	require.NoError(t, <-other)
	plain := enginetest.NewContext(t, onDevice(t, backendcuda.Options{NoGraph: true}).Model(t, "tiny-qwen3-f32"), engine.ContextOptions{Ctx: 128})
	_, want := greedy(t, plain, []int32{1, 2, 3}, 30)
	require.Equal(t, want, got)
}

// directCopy copies as a registration without care would.
func directCopy(d *cudart.Driver, s sys.Stream) (err error) {
	c, err := d.Retain(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Release()) }()
	return c.Do(func(b *cudart.Bound) error {
		p, err := b.AllocPinned(1 << 20)
		if err != nil {
			return err
		}
		m, err := b.Alloc(1 << 20)
		if err != nil {
			return errors.Join(err, p.Free(b))
		}
		t := d.Table()
		r := t.MemcpyHtoD(m.Ptr(), unsafe.Pointer(&p.Bytes()[0]), 1<<20, s)
		if r == sys.Success && s == 0 {
			r = t.CtxSynchronize()
		}
		if r != sys.Success {
			err = errors.New("copy: " + r.String() + " " + strconv.Itoa(int(r)))
		}
		return errors.Join(err, m.Free(b), p.Free(b))
	})
}
