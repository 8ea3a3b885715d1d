package devicetest

import (
	"flag"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/enginetest"
	"github.com/minfer-go/minfer/engine/synthetic"
	"github.com/minfer-go/minfer/kvformat"
)

var (
	soak  = flag.Duration("soak", 0, "how long TestSoak alternates two models and two KV formats")
	speed = flag.Bool("speed", false, "run TestReplaySpeed")
)

// TestSoak alternates two models and two KV formats; each combination gives the bits of its first time, memory doesn't grow.
func TestSoak(t *testing.T) {
	if *soak == 0 {
		t.Skip("takes long: -soak=5m")
	}
	o := onDevice(t, backendcuda.Options{})
	names, formats := []string{"tiny-qwen2w-q4_k_m", "minfer-story-3m-q8_0"}, []kvformat.Format{kvformat.F16, kvformat.F32}
	watch, err := backendcuda.New(backendcuda.Options{})
	require.NoError(t, err)
	defer watch.Close()
	want := map[[2]int]uint64{}
	least, start, rounds := int64(math.MaxInt64), int64(0), 0
	for began := time.Now(); time.Since(began) < *soak; rounds++ {
		for i, name := range names {
			for j, kv := range formats {
				m, err := engine.Load(testdata+"/models/"+name+".gguf", o.Load)
				require.NoError(t, err)
				c, err := m.NewContext(engine.ContextOptions{Ctx: 256, KeyType: kv, ValueType: kv})
				require.NoError(t, err)
				_, sum := greedy(t, c, []int32{1, 2, 3, 4, 5, 6, 7}, 60+rounds%3)
				if rounds%3 == 0 {
					if want[[2]int{i, j}] == 0 {
						want[[2]int{i, j}] = sum
					}
					require.Equal(t, want[[2]int{i, j}], sum, "%s kv %s, round %d", name, kv, rounds)
				}
				require.NoError(t, c.Close())
				require.NoError(t, m.Close())
			}
		}
		free, _, err := watch.Memory()
		require.NoError(t, err)
		if rounds == 10 {
			start = free
		}
		least = min(least, free)
	}
	t.Logf("%d rounds of 4; free after 10 rounds %d MiB, at least %d MiB", rounds, start>>20, least>>20)
	require.Less(t, start-least, int64(32<<20))
}

// TestReplaySpeed measures a decode step replayed from a captured graph, from one built node by node, and launched kernel by kernel, by
// turns (docs/adr/0003).
func TestReplaySpeed(t *testing.T) {
	if !*speed {
		t.Skip("measures: -speed")
	}
	arms := []backendcuda.Options{{}, {Explicit: true}, {NoGraph: true}}
	names := []string{"captured", "built node by node", "launched one by one"}
	var contexts []*engine.Context
	for _, arm := range arms {
		o := onDevice(t, arm)
		m, err := engine.Load(storyModel(), o.Load)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, m.Close()) })
		contexts = append(contexts, enginetest.NewContext(t, m, engine.ContextOptions{Ctx: 1024}))
	}
	const rounds, steps = 9, 200
	best := make([][]float64, len(arms))
	var want uint64
	for range rounds {
		for i, c := range contexts {
			began := time.Now()
			_, sum := greedy(t, c, []int32{1, 2, 3}, steps)
			best[i] = append(best[i], float64(time.Since(began).Microseconds())/steps)
			if want == 0 {
				want = sum
			}
			require.Equal(t, want, sum, names[i])
		}
	}
	for i, times := range best {
		low := math.Inf(1)
		for _, x := range times {
			low = min(low, x)
		}
		t.Logf("%-20s least %.1f µs a step, logits on the host included; all %v", names[i], low, times)
	}
}

var big = flag.Bool("big", false, "run TestBigModels")

// TestBigModels loads random models of real sizes, answers, and compares the memory that is gone with the estimate.
func TestBigModels(t *testing.T) {
	if !*big {
		t.Skip("takes some 20 GB of memory: -big")
	}
	o := onDevice(t, backendcuda.Options{})
	watch, err := backendcuda.New(backendcuda.Options{})
	require.NoError(t, err)
	defer watch.Close()
	for _, name := range []string{"qwen2.5-7b:q4_k_m", "qwen2.5-14b:q4_k_m", "qwen3-8b:q8_0"} {
		t.Run(name, func(t *testing.T) {
			data, err := synthetic.Make(name)
			require.NoError(t, err)
			before, _, err := watch.Memory()
			require.NoError(t, err)
			began := time.Now()
			m, err := engine.LoadBytes(name, data, o.Load)
			require.NoError(t, err)
			defer m.Close()
			options := engine.ContextOptions{Ctx: 4096}
			c, err := m.NewContext(options)
			require.NoError(t, err)
			defer c.Close()
			loaded := time.Since(began)
			prompt := make([]int32, 512)
			for i := range prompt {
				prompt[i] = int32(i * 7)
			}
			_, _ = greedy(t, c, prompt, 32)
			after, _, err := watch.Memory()
			require.NoError(t, err)
			want, err := m.Memory(options)
			require.NoError(t, err)
			used := before - after
			t.Logf("%s: loaded in %v (%.1f GB/s); memory used %d MiB, estimated %d (weights %d, KV %d, buffers %d)", name, loaded.Round(time.Millisecond),
				float64(want.Weights)/loaded.Seconds()/1e9, used>>20, want.Total()>>20, want.Weights>>20, want.KV>>20, want.Compute>>20)
			require.Less(t, math.Abs(float64(used-want.Total())), 0.1*float64(want.Total())+float64(1<<30))
		})
	}
}
