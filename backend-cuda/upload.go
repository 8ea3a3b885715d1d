package backendcuda

import (
	"errors"
	"sync"
	"time"

	"github.com/minfer-go/minfer/cudart"
)

// uploadChunk is the size of a pinned buffer on the way to the device: large enough that a copy runs at the link's speed,
// while the other buffer is being filled.
const uploadChunk = 8 << 20

// uploader brings bytes of a mapped file to the device through two pinned buffers in turn.
type uploader struct {
	deadline time.Duration
	slots    [2]uploadSlot
	next     int
}

type uploadSlot struct {
	pinned *cudart.Pinned
	done   *cudart.Event // of the last copy out of it
	busy   bool
}

func newUploader(b *cudart.Bound, deadline time.Duration) (*uploader, error) {
	u := &uploader{deadline: deadline}
	for i := range u.slots {
		var err error
		s := &u.slots[i]
		if s.pinned, err = b.AllocPinned(uploadChunk); err == nil {
			s.done, err = b.NewEvent(false)
		}
		if err != nil {
			return nil, errors.Join(err, u.close(b))
		}
	}
	return u, nil
}

// rows queues the copy of a matrix whose rows of rowBytes bytes shall begin stride bytes apart; the bytes between are
// zero. data has been read when it returns.
func (u *uploader) rows(b *cudart.Bound, s *cudart.Stream, dst cudart.Ptr, data []byte, rows int, rowBytes, stride int64) error {
	if rowBytes == stride {
		return u.linear(b, s, dst, data)
	}
	perChunk := max(int(uploadChunk/stride), 1)
	if stride > uploadChunk { // a row larger than a buffer: row by row
		for r := range rows {
			if err := u.linear(b, s, dst+cudart.Ptr(int64(r)*stride), data[int64(r)*rowBytes:][:rowBytes]); err != nil {
				return err
			}
		}
		return nil
	}
	for r := 0; r < rows; r += perChunk {
		n := min(perChunk, rows-r)
		err := u.chunk(b, s, dst+cudart.Ptr(int64(r)*stride), int64(n)*stride, func(mem []byte) {
			for i := range n {
				row := mem[int64(i)*stride:][:stride]
				clear(row[copy(row, data[int64(r+i)*rowBytes:][:rowBytes]):])
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *uploader) linear(b *cudart.Bound, s *cudart.Stream, dst cudart.Ptr, data []byte) error {
	for len(data) > 0 {
		part := data[:min(len(data), uploadChunk)]
		if err := u.chunk(b, s, dst, int64(len(part)), func(mem []byte) { parallelCopy(mem, part) }); err != nil {
			return err
		}
		data, dst = data[len(part):], dst+cudart.Ptr(len(part))
	}
	return nil
}

// chunk fills the next pinned buffer, once its last copy is done, and queues its copy.
func (u *uploader) chunk(b *cudart.Bound, s *cudart.Stream, dst cudart.Ptr, n int64, fill func(mem []byte)) error {
	slot := &u.slots[u.next]
	u.next = 1 - u.next
	if slot.busy {
		if err := slot.done.Wait(b, u.deadline, "the upload of weights"); err != nil {
			return err
		}
	}
	fill(slot.pinned.Bytes()[:n])
	slot.busy = true
	if err := b.CopyToDevice(s, dst, slot.pinned, 0, n); err != nil {
		return err
	}
	return slot.done.Record(b, s)
}

// parallelCopy copies with a few goroutines: one core doesn't fill the link, and pages of a mapped file come in as
// they are touched.
func parallelCopy(dst, src []byte) {
	const part = 1 << 20
	if len(src) <= part {
		copy(dst, src)
		return
	}
	var wg sync.WaitGroup
	for at := 0; at < len(src); at += 2 * part {
		wg.Go(func() { copy(dst[at:], src[at:min(at+2*part, len(src))]) })
	}
	wg.Wait()
}

func (u *uploader) close(b *cudart.Bound) error {
	var errs []error
	for i := range u.slots {
		s := &u.slots[i]
		if s.busy {
			errs = append(errs, s.done.Wait(b, u.deadline, "the upload of weights"))
		}
		if s.done != nil {
			errs = append(errs, s.done.Destroy(b))
		}
		if s.pinned != nil {
			errs = append(errs, s.pinned.Free(b))
		}
	}
	return errors.Join(errs...)
}
