package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/enginetest"
)

var options = enginetest.Options{Dir: "testdata"}

// bigModel is the path of a model that is not in the repository, or skips the test.
func bigModel(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("MINFER_TEST_MODELS")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); dir == "" || err != nil {
		t.Skipf("needs %s in the folder that MINFER_TEST_MODELS names (now %q)", name, dir)
	}
	return path
}

func TestGoldenLogits(t *testing.T) { enginetest.GoldenLogits(t, options) }

func TestGoldenLogitsSmolLM2(t *testing.T) {
	name := "smollm2-135m-instruct-q4_1-qwen2"
	enginetest.GoldenLogitsOf(t, options, bigModel(t, name+".gguf"), name)
}

func TestGoldenHidden(t *testing.T) { enginetest.GoldenHidden(t, options) }

func TestGoldenGreedy(t *testing.T) {
	t.Run("story-3m", func(t *testing.T) {
		enginetest.GoldenGreedy(t, options, filepath.Join("testdata", "models", "minfer-story-3m-q8_0.gguf"), "minfer-story-3m-q8_0-greedy.json")
	})
	t.Run("story-21m", func(t *testing.T) {
		path := filepath.Join("..", "cli", "defaultmodel", "minfer-story-21m-q4_k_m.gguf")
		if _, err := os.Stat(path); err != nil {
			t.Skip("needs the default model of the cli module beside this one")
		}
		enginetest.GoldenGreedy(t, options, path, "minfer-story-21m-q4_k_m-greedy.json")
	})
	t.Run("smollm2", func(t *testing.T) {
		enginetest.GoldenGreedy(t, options, bigModel(t, "smollm2-135m-instruct-q4_1-qwen2.gguf"), "smollm2-greedy.json")
	})
	t.Run("qwen2.5-coder-0.5b", func(t *testing.T) {
		enginetest.GoldenGreedy(t, options, bigModel(t, "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"), "qwen2.5-coder-0.5b-instruct-greedy.json")
	})
}

func TestF16Trap(t *testing.T) { enginetest.F16Trap(t, options) }

// TestRowsDontDependOnTheirCompany: the logits are the same bits however a prompt is fed, with any number of threads, on
// every instruction path (docs/adr/0001): and all paths agree with each other.
func TestRowsDontDependOnTheirCompany(t *testing.T) {
	for i, name := range enginetest.InvarianceModels {
		kv := enginetest.InvarianceFormat(i)
		t.Run(fmt.Sprintf("%s kv %s", name, kv), func(t *testing.T) {
			tokens := options.LongTokens(t, name)
			var want [][]float32
			for _, path := range backendcpu.Paths() {
				for threads := 1; threads <= 3; threads++ {
					if path == "generic" && threads == 3 {
						continue
					}
					o := options
					o.Load = engine.LoadOptions{Threads: threads, CPUPath: path}
					m := o.Model(t, name)
					feeds := []enginetest.Feed{enginetest.Chunks(len(tokens)), enginetest.Chunks(7)}
					switch {
					case path == "generic" && len(backendcpu.Paths()) > 1: // slow: it need only agree
						feeds = feeds[threads%2 : threads%2+1]
					case threads == 2:
						feeds = append(feeds, enginetest.Chunks(1), enginetest.Company)
					}
					for _, f := range feeds {
						got := enginetest.RunFeed(t, m, f, kv, tokens)
						if want == nil {
							want = got
						}
						enginetest.SameBits(t, fmt.Sprintf("%s, %d threads, %s", path, threads, f.Name), want, got)
					}
				}
			}
		})
	}
}
