//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ctrl-C in mid-answer: what was generated stands, on a line that is ended, and the exit code is the shell's 128+SIGINT.
func TestInterruptedAnswer(t *testing.T) {
	// The end of an answer forbidden and a long context, so that it is still busy when the signal comes.
	cmd := command("run", "-c", "16384", "--greedy", "--logit-bias", "4095=-1e9", "--logit-bias", "4093=-1e9", storyPrompt)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first := make([]byte, 4)
	_, err = io.ReadFull(out, first)
	require.NoError(t, err, "text comes before the answer is complete")
	sent := time.Now()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	assert.Error(t, cmd.Wait())
	assert.Equal(t, 130, cmd.ProcessState.ExitCode(), stderr.String())
	assert.Less(t, time.Since(sent), 5*time.Second)
	assert.Equal(t, "Once", string(first))
	assert.True(t, strings.HasSuffix(string(rest), "\n"))
	assert.Empty(t, stderr.String())
}

// Ctrl-C in mid-measurement: no table, no picture, the shell's 128+SIGINT.
func TestInterruptedBench(t *testing.T) {
	dir := t.TempDir()
	plot := filepath.Join(dir, "speed.svg")
	cmd := command("bench", "--backend", "cpu", "-p", "0", "-n", "500", "-r", "1000", "-d", "0,1", "--plot", plot)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(plot + ".tmp"); return err == nil }, 20*time.Second, time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	assert.Error(t, cmd.Wait())
	assert.Equal(t, 130, cmd.ProcessState.ExitCode(), stderr.String())
	assert.Empty(t, stdout.String())
	assert.Empty(t, stderr.String())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, files)
}

// What can't be written is an error, however small it is.
func TestLogitsThatCannotBeWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("only Linux has a device that opens and then refuses every write")
	}
	r := run(t, "logits", "-m", tinyModel, "--tokens", "1", "--out", "/dev/full")
	assert.Equal(t, 1, r.code)
	assert.Contains(t, r.stderr, "--out: ")
	assertOneLine(t, r)
}

// Ctrl-C while standard input is still open.
func TestInterruptedInput(t *testing.T) {
	for _, args := range [][]string{{"run"}, {"run", "-f", "/dev/stdin"}, {"tokenize"}, {"template", "-"}} {
		cmd := command(args...)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = io.WriteString(in, "half a prom")
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond) // it has to be past its start, and nothing shows that from outside
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		assert.Error(t, cmd.Wait()) // closes the pipe too
		assert.Equal(t, 130, cmd.ProcessState.ExitCode(), args)
	}
}
