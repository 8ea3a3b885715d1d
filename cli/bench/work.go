package bench

import (
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/kvformat"
)

// work is what a test reads and multiplies at least, from the shapes alone.
type work struct {
	bytes int64 // weights, each once a graph run, and KV rows, each once a graph run and sequence
	macs  int64 // matrix products: what int8 arithmetic does; attention's float products are not in it
}

// workOf one repetition. Of the output matrix only rows with logits are multiplied.
func workOf(m *engine.Model, t *test, key, value kvformat.Format) work {
	cfg := m.Config()
	var blocks, blockBytes int64
	for _, w := range m.Net().Weights() {
		if w == m.Net().Output || w == m.Net().TokenEmbd {
			continue
		}
		blockBytes += w.Bytes()
		if len(w.Shape) == 2 {
			blocks += int64(w.Shape.Elems())
		}
	}
	output, outputBytes := int64(m.Net().Output.Shape.Elems()), m.Net().Output.Bytes()
	embdRow := m.Net().TokenEmbd.Bytes() / int64(m.Net().NVocab)
	keyRow, _ := key.RowBytes(cfg.HeadDim)
	valueRow, _ := value.RowBytes(cfg.HeadDim)
	kvRow := int64(keyRow+valueRow) * int64(cfg.NHeadKV) * int64(cfg.NLayer)

	n, depth, seqs := int64(t.steps()), int64(t.depth), int64(t.seqs())
	if t.kind == prefill {
		w := work{outputBytes + n*embdRow, n*blocks + output}
		for at := int64(0); at < n; { // graph runs of a batch of rows each
			at = min(at+engine.DefaultBatch, n)
			w.bytes += blockBytes + kvRow*(depth+at)
		}
		return w
	}
	cells := n*depth + n*(n+1)/2
	return work{n*(blockBytes+outputBytes+seqs*embdRow) + seqs*kvRow*cells, n * seqs * (blocks + output)}
}
