package emulator

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sources is a folder with a kernel, its header and a main that fails unless both say what they should.
func sources(t *testing.T) (dir string, put func(name, text string)) {
	t.Helper()
	if _, err := exec.LookPath("g++"); err != nil {
		t.Skip(ErrNoCompiler)
	}
	if runtime.GOOS != "linux" {
		t.Skip("the cache is moved by XDG_CACHE_HOME")
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir = t.TempDir()
	put = func(name, text string) {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	put("cu/a.cu", "#include \"a.cuh\"\nint kernel() { return A + B; }")
	put("cu/a.cuh", "#define A 1")
	put("_emu/include/emulator.h", "#define B 2")
	put("_emu/emulator.cc", "int kernel();\nint main() { return kernel(); }")
	return dir, put
}

// code is what the built program exits with.
func code(t *testing.T, exe string) int {
	t.Helper()
	cmd := exec.Command(exe)
	_ = cmd.Run() // the status is the answer
	require.NotNil(t, cmd.ProcessState, "it didn't run")
	return cmd.ProcessState.ExitCode()
}

// TestBuildOnce: what was built stays as it is until a source changes, and then only what it is in is built anew.
func TestBuildOnce(t *testing.T) {
	dir, put := sources(t)
	exe, err := Build(dir)
	require.NoError(t, err)
	require.Equal(t, 3, code(t, exe))
	files := func() map[string]time.Time {
		all := map[string]time.Time{}
		list, err := os.ReadDir(filepath.Dir(exe))
		require.NoError(t, err)
		for _, f := range list {
			info, err := f.Info()
			require.NoError(t, err)
			all[f.Name()] = info.ModTime()
		}
		return all
	}
	first := files()
	require.Len(t, first, 4, "two objects, the program, the lock: %v", first)
	again, err := Build(dir)
	require.NoError(t, err)
	require.Equal(t, exe, again)
	require.Equal(t, first, files())
	for _, change := range []struct {
		name, text string
		want, made int // exit code; files made
	}{
		{"cu/a.cuh", "#define A 10", 12, 3},
		{"_emu/include/emulator.h", "#define B 20", 30, 3},
		{"cu/a.cu", "#include \"a.cuh\"\nint kernel() { return A * 2 + B; }", 40, 2},
		{"_emu/emulator.cc", "int kernel();\nint main() { return kernel() + 1; }", 41, 2},
	} {
		before := files()
		put(change.name, change.text)
		got, err := Build(dir)
		require.NoError(t, err)
		require.NotEqual(t, exe, got, change.name)
		require.Equal(t, change.want, code(t, got), change.name)
		require.Len(t, files(), len(before)+change.made, change.name)
		exe = got
	}
	old := time.Now().Add(-keep - time.Hour)
	require.NoError(t, os.Chtimes(exe, old, old))
	put("cu/a.cuh", "#define A 11")
	_, err = Build(dir)
	require.NoError(t, err)
	require.NoFileExists(t, exe, "built long ago")
}

// TestBuildTogether: of builds at the same time one does the work.
func TestBuildTogether(t *testing.T) {
	dir, _ := sources(t)
	exes := make([]string, 4)
	var wg sync.WaitGroup
	for i := range exes {
		wg.Go(func() {
			var err error
			if exes[i], err = Build(dir); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, exe := range exes {
		require.Equal(t, exes[0], exe)
	}
	require.Equal(t, 3, code(t, exes[0]))
	list, err := os.ReadDir(filepath.Dir(exes[0]))
	require.NoError(t, err)
	require.Len(t, list, 4, "no part is left: %v", list)
}

func TestBuildFails(t *testing.T) {
	dir, put := sources(t)
	_, err := Build(t.TempDir())
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "no kernels in")
	put("cu/b.cu", "int broken(")
	_, err = Build(dir)
	require.ErrorContains(t, err, "b.cu")
	require.ErrorContains(t, err, "expected")
	require.NoError(t, os.Remove(filepath.Join(dir, "cu/b.cu")))
	exe, err := Build(dir)
	require.NoError(t, err)
	require.Equal(t, 3, code(t, exe))
	t.Setenv("PATH", "")
	_, err = Build(dir)
	require.ErrorIs(t, err, ErrNoCompiler)
}
