package main

import (
	"bytes"
	"context"
	"errors"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/gguf/gguftest"
)

// These tests run the built program, as a user does.
var program string

const tinyModel = "../testdata/tiny-qwen3-q8_0.gguf"

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "minfer-cli")
	if err != nil {
		log.Fatal(err)
	}
	program = filepath.Join(dir, "minfer-cli")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	if err != nil {
		log.Fatalf("go build: %v\n%s", err, out)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// result of one run of the program.
type result struct {
	stdout, stderr string
	code           int
	took           time.Duration
	state          *os.ProcessState
}

// command prepares a run without the MINFER_ variables that the tests may be run with.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "MINFER_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	return cmd
}

// finish runs a prepared command to its end.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	from := time.Now()
	require.NoError(t, cmd.Start())
	go func() {
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			_ = cmd.Process.Kill()
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode(), time.Since(from), cmd.ProcessState}
}

// run runs the program with empty standard input.
func run(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, command(args...))
}

// ok runs the program, which must succeed and say nothing on standard error.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := run(t, args...)
	require.Equal(t, 0, r.code, "%q: %s", args, r.stderr)
	require.Empty(t, r.stderr, "%q", args)
	return r.stdout
}

// assertOneLine wants an error of one clear line and no sign of a crash.
func assertOneLine(t *testing.T, r result) {
	t.Helper()
	assert.Regexp(t, `^minfer-cli: [^\n]+\n$`, r.stderr)
	for _, sign := range []string{"panic", "goroutine", "runtime error", "SIG"} {
		assert.NotContains(t, r.stderr, sign)
	}
}

func TestWrongCallsExitWith2(t *testing.T) {
	for _, args := range [][]string{
		{}, {"nonsense"}, {"run", "--nonsense", "x"}, {"run"}, {"run", "  "}, {"run", "-n", "x", "hi"}, {"run", "-n", "0", "hi"}, {"run", "-n", "-2", "hi"}, {"run", "-f", "file", "hi"},
		{"run", "--temp", "-1", "hi"}, {"run", "--top-p", "7", "hi"}, {"run", "--seed", "-1", "hi"}, {"run", "--logit-bias", "x", "hi"}, {"run", "--logit-bias", "5=1x", "hi"}, {"run", "--logit-bias", "5", "hi"},
		{"run", "--cache-type-k", "q4", "hi"}, {"run", "--backend", "abacus", "hi"}, {"run", "--raw", "--system", "x", "hi"},
		{"logits"}, {"logits", "--tokens", ""}, {"logits", "--tokens", "1,x"}, {"logits", "--tokens", "-3"}, {"logits", "--tokens", "1", "--top", "-1"},
		{"tokenize", "--decode", "one"}, {"tokenize", "-f", "file", "text"}, {"template"}, {"inspect", "a", "b"}, {"version", "x"},
	} {
		r := run(t, args...)
		assert.Equal(t, 2, r.code, "%q", args)
		assert.Empty(t, r.stdout, "%q", args)
		assertOneLine(t, r)
	}
}

func TestFailuresExitWith1(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"run", "-m", filepath.Join(dir, "none.gguf"), "hi"}, {"run", "-m", dir, "hi"}, {"inspect", filepath.Join(dir, "none.gguf")},
		{"run", "-f", filepath.Join(dir, "none.txt")}, {"run", "--template", filepath.Join(dir, "none.jinja"), "hi"}, {"run", "--template", os.DevNull, "hi"},
		{"run", "-c", "3", "a prompt longer than its context"}, {"run", "-c", "-5", "hi"}, {"run", "-c", "999999999999", "hi"}, {"run", "-t", "100000", "hi"},
		{"run", "--cpu-path", "abacus", "hi"}, {"run", "--dump-graph", filepath.Join(dir, "none", "g.dot"), "hi"}, {"run", "--logit-bias", "9999999=1", "hi"},
		{"logits", "--tokens", "9999999"}, {"logits", "--tokens", "@" + filepath.Join(dir, "none")}, {"logits", "--tokens", "1", "--out", filepath.Join(dir, "none", "x")},
		{"tokenize", "--decode", "9999999"}, {"template", filepath.Join(dir, "none.json")}, {"template", os.DevNull},
	} {
		r := run(t, args...)
		assert.Equal(t, 1, r.code, "%q", args)
		assert.Empty(t, r.stdout, "%q", args)
		assertOneLine(t, r)
	}
}

// A file that is no good costs neither time nor memory.
func TestMalformedFiles(t *testing.T) {
	cases := gguftest.Malformed()
	require.GreaterOrEqual(t, len(cases), 20)
	const most = 200 << 20
	start := startPeak()
	if start > most/2 {
		t.Logf("peaks of children aren't judged: this process itself takes %d MiB", start>>20)
	}
	for _, c := range cases {
		path := filepath.Join(t.TempDir(), "model.gguf")
		require.NoError(t, os.WriteFile(path, c.Data, 0o666))
		for _, args := range [][]string{{"run", "-m", path, "hi"}, {"inspect", path}} {
			r := run(t, args...)
			assert.Equal(t, 1, r.code, "%s: %s", c.Name, r.stdout)
			assert.Empty(t, r.stdout, c.Name)
			assert.Contains(t, r.stderr, c.Want, c.Name)
			assertOneLine(t, r)
			assert.Less(t, r.took, time.Second, c.Name)
			if start <= most/2 {
				assert.Less(t, peakMemory(r.state), int64(most), c.Name)
			}
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	assert.Contains(t, ok(t, "--help"), "Example:")
	for _, c := range []string{"run", "bench", "inspect", "tokenize", "template", "logits", "env"} {
		out := ok(t, c, "--help")
		assert.Contains(t, out, "Example", c)
		assert.Contains(t, out, "minfer-cli "+c, c)
	}
}

func TestVersion(t *testing.T) {
	assert.Regexp(t, `^minfer-cli v0\.1\.0.* CPU paths \[generic.*\]\n$`, ok(t, "version"))
}

func TestEnvironment(t *testing.T) {
	cmd := command("env", "--json")
	cmd.Env = append(cmd.Env, "MINFER_THREADS=1")
	r := finish(t, cmd)
	require.Equal(t, 0, r.code, r.stderr)
	var rows []struct{ Name, Value string }
	decode(t, r.stdout, &rows)
	assert.Contains(t, rows, struct{ Name, Value string }{"MINFER_THREADS", "1"})

	for variable, args := range map[string][]string{"MINFER_THREADS=many": {"run", "hi"}, "MINFER_THREAD=1": {"version"}, "MINFER_CPU_PATH=abacus": {"run", "hi"}} {
		cmd := command(args...)
		cmd.Env = append(cmd.Env, variable)
		r := finish(t, cmd)
		assert.Equal(t, 1, r.code, variable)
		assert.Empty(t, r.stdout, variable)
		assertOneLine(t, r)
	}
}
