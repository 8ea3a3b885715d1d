// Package careless loses results in every way that UnreadResults looks for.
package careless

import (
	"time"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/cudart/sys"
)

func f(t *sys.Table, b *cudart.Bound, s *cudart.Stream, m *cudart.Memory) error {
	t.CtxSynchronize()
	_, _ = t.MemAlloc(1)
	free := t.MemFree
	free(0)
	defer m.Free(b)
	go s.Wait(b, time.Second, "x")
	_ = s.Destroy(b)
	_ = s.Destroy(b) // the stream is broken anyway
	p, _ := b.Alloc(1)
	var _, _ = b.Alloc(1)
	p.Size()
	if r := t.MemFree(0); r != sys.Success {
		return nil
	}
	return m.Free(b)
}
