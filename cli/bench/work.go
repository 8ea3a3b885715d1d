package bench

import (
	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/kvformat"
	modelsqwen "github.com/minfer-go/minfer/models-qwen"
)

// work is what a test reads and multiplies at least, from the shapes alone.
type work struct {
	bytes int64 // weights, each once a graph run, and KV rows, each once a graph run and sequence
	macs  int64 // matrix products: what int8 arithmetic does; attention's float products are not in it
}

// workOf is the work of one repetition.
func workOf(m *engine.Model, t *test, key, value kvformat.Format) (w work) {
	s := shapesOf(m.Net(), key, value)
	n, depth, seqs := t.steps(), t.depth, t.seqs()
	if t.kind != prefill {
		for i := range n {
			w.add(s.run(seqs, seqs, seqs*(depth+i+1)))
		}
		return w
	}
	for at := 0; at < n; { // graph runs of a batch of rows each; the last one gives logits
		rows := min(engine.DefaultBatch, n-at)
		at += rows
		outputs := 0
		if at == n {
			outputs = 1
		}
		w.add(s.run(rows, outputs, depth+at))
	}
	return w
}

func (w *work) add(x work) { w.bytes, w.macs = w.bytes+x.bytes, w.macs+x.macs }

// shapes are sums over a model's weights: bytes, and products of one row. In the last block only rows with logits go past attention, so
// a run without any needs no more than its keys and values.
type shapes struct {
	blocks work // all of every block but the last, and the last one's keys and values
	query  work // the last block's queries
	rest   work // the last block after attention, and the output
	embd   int64
	kvRow  int64 // bytes of a cell in one layer
	layers int64
}

func shapesOf(net *modelsqwen.Model, key, value kvformat.Format) (s shapes) {
	last := len(net.Layers) - 1
	for i, l := range net.Layers {
		query, rest := &s.blocks, &s.blocks
		if i == last {
			query, rest = &s.query, &s.rest
		}
		s.blocks.add(weights(l.AttnNorm, l.K, l.V, l.KBias, l.VBias, l.KNorm))
		query.add(weights(l.Q, l.QBias, l.QNorm))
		rest.add(weights(l.AttnOutput, l.AttnOutputBias, l.FFNNorm, l.FFNGate, l.FFNUp, l.FFNDown))
	}
	s.rest.add(weights(net.OutputNorm, net.Output))
	s.embd = net.TokenEmbd.Bytes() / int64(net.NVocab)
	keyRow, _ := key.RowBytes(net.HeadDim)
	valueRow, _ := value.RowBytes(net.HeadDim)
	s.kvRow = int64(keyRow+valueRow) * int64(net.NHeadKV)
	s.layers = int64(net.NLayer)
	return s
}

func weights(list ...*graph.Weight) (w work) {
	for _, x := range list {
		if x != nil {
			w.bytes += x.Bytes()
			if len(x.Shape) == 2 {
				w.macs += int64(x.Shape.Elems())
			}
		}
	}
	return w
}

// run is one graph run over rows, some of them with logits, that reads so many cells.
func (s *shapes) run(rows, outputs, cells int) work {
	n, out := int64(rows), int64(outputs)
	w := work{s.blocks.bytes + n*s.embd + s.kvRow*(s.layers-1)*int64(cells), n * s.blocks.macs}
	if outputs > 0 {
		w.bytes += s.query.bytes + s.rest.bytes + s.kvRow*int64(cells)
		w.macs += n*s.query.macs + out*s.rest.macs
	}
	return w
}
