package pool

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type stepFunc func(worker, n int) error

func (f stepFunc) Run(worker, n int) error { return f(worker, n) }

// Each step sums what the step before has written in all workers' shares: a barrier that leaks, or that lets a worker
// run ahead, gives a wrong sum (and a race report).
func TestBarrierOrdersSteps(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8} {
		p := New(n)
		a, b := make([]int, n), make([]int, n)
		steps := []Step{stepFunc(func(w, n int) error { a[w] = 1; return nil })}
		for i := 0; i < 50; i++ {
			src, dst := a, b
			if i%2 == 1 {
				src, dst = b, a
			}
			steps = append(steps, stepFunc(func(w, n int) error {
				sum := 0
				for _, v := range src {
					sum += v
				}
				dst[w] = sum % 1009
				return nil
			}))
		}
		for round := 0; round < 20; round++ {
			if round%7 == 3 {
				time.Sleep(2 * time.Millisecond) // let the workers park
			}
			require.NoError(t, p.Run(steps, nil))
			want := 1
			for i := 0; i < 50; i++ {
				want = want * n % 1009
			}
			for w := range a {
				require.Equal(t, want, a[w], "%d workers, round %d", n, round)
			}
		}
		p.Close()
	}
}

func TestPanicAndErrorEndTheProgram(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		p := New(n)
		var later, before atomic.Int32
		last := n - 1
		prog := func(bad stepFunc) []Step {
			return []Step{
				stepFunc(func(w, n int) error { before.Add(1); return nil }),
				bad,
				stepFunc(func(w, n int) error { later.Add(1); return nil }),
			}
		}
		err := p.Run(prog(func(w, n int) error {
			if w == last {
				var s []int
				_ = s[w]
			}
			return nil
		}), nil)
		require.ErrorContains(t, err, "index out of range")
		require.ErrorContains(t, err, "step 1")

		sentinel := errors.New("sentinel")
		err = p.Run(prog(func(w, n int) error {
			if w == 0 {
				return sentinel
			}
			return nil
		}), nil)
		require.ErrorIs(t, err, sentinel)
		require.EqualValues(t, 2*n, before.Load())
		require.Zero(t, later.Load(), "steps after a failure must not run")

		require.NoError(t, p.Run(prog(func(w, n int) error { return nil }), nil), "a pool works on after a failure")
		require.EqualValues(t, n, later.Load())
		p.Close()
		require.Error(t, p.Run(nil, nil))
	}
}

// A program that is stopped while step k runs ends before step k+1, on all workers; the pool works on.
func TestStop(t *testing.T) {
	const last = 6
	for _, n := range []int{1, 2, 5} {
		p := New(n)
		for k := range last {
			done := make(chan struct{})
			var ran [last]atomic.Int32
			var steps []Step
			for i := range last {
				steps = append(steps, stepFunc(func(w, n int) error {
					if ran[i].Add(1); i == k && w == 0 {
						close(done)
					}
					return nil
				}))
			}
			err := p.Run(steps, done)
			if k == last-1 {
				require.NoError(t, err, "nothing was left to stop")
			} else {
				require.ErrorIs(t, err, ErrStopped)
			}
			for i := range last {
				switch got := int(ran[i].Load()); {
				case i <= k:
					require.Equal(t, n, got, "step %d of %d workers", i, n)
				case i == k+1: // others may have begun it before worker 0 looked
					require.Less(t, got, n)
				default:
					require.Zero(t, got, "step %d, stopped in %d", i, k)
				}
			}
			require.ErrorIs(t, p.Run(steps, done), ErrStopped, "closed before it began")
			require.NoError(t, p.Run(steps[:0], nil))
			var again atomic.Int32
			require.NoError(t, p.Run([]Step{stepFunc(func(w, n int) error { again.Add(1); return nil })}, nil))
			require.EqualValues(t, n, again.Load())
		}
		p.Close()
	}
}

func TestRunAllocatesNothing(t *testing.T) {
	p := New(2)
	defer p.Close()
	var sum [2]int
	steps := []Step{stepFunc(func(w, n int) error { sum[w]++; return nil }), stepFunc(func(w, n int) error { sum[w]++; return nil })}
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = p.Run(steps, nil) }))
	done := make(chan struct{})
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = p.Run(steps, done) }))
}

func TestSplit(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 128, 4864} {
		for _, unit := range []int{1, 8, 32} {
			for workers := 1; workers <= 9; workers++ {
				at := 0
				for w := 0; w < workers; w++ {
					lo, hi := Split(n, unit, w, workers)
					require.Equal(t, at, lo)
					require.LessOrEqual(t, lo, hi)
					require.True(t, lo%unit == 0 || lo == n)
					require.LessOrEqual(t, hi-lo, ((n+unit-1)/unit+workers-1)/workers*unit)
					at = hi
				}
				require.Equal(t, n, at)
			}
		}
	}
}

func TestThreadsFollowQuota(t *testing.T) {
	write := func(root, name, text string) {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	v2 := t.TempDir()
	write(v2, "proc/self/cgroup", "0::/a/b\n")
	require.Equal(t, 8, limitThreads(8, v2), "no cpu.max anywhere")
	write(v2, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
	require.Equal(t, 8, limitThreads(8, v2))
	write(v2, "sys/fs/cgroup/a/cpu.max", "250000 100000\n")
	require.Equal(t, 2, limitThreads(8, v2), "a parent's quota binds")
	require.Equal(t, 1, limitThreads(1, v2), "affinity binds")
	write(v2, "sys/fs/cgroup/cpu.max", "50000 100000\n")
	require.Equal(t, 1, limitThreads(8, v2), "never 0")

	v1 := t.TempDir()
	write(v1, "proc/self/cgroup", "12:memory:/x\n4:cpu,cpuacct:/x\n")
	write(v1, "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "-1\n")
	write(v1, "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n")
	require.Equal(t, 8, limitThreads(8, v1))
	write(v1, "sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n")
	require.Equal(t, 3, limitThreads(8, v1))
	require.GreaterOrEqual(t, DefaultThreads(), 1)
}

func BenchmarkBarrier(b *testing.B) {
	p := New(2)
	defer p.Close()
	steps := make([]Step, 1000)
	for i := range steps {
		steps[i] = stepFunc(func(w, n int) error { return nil })
	}
	for b.Loop() {
		_ = p.Run(steps, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/step")
}
