package backendcuda

import (
	"errors"
	"fmt"
	"time"

	"github.com/minfer-go/minfer/cudart"
	"github.com/minfer-go/minfer/graph"
)

// stagingBytes is the size of the pinned ring that step inputs go through, and of the buffer that results come back in.
const stagingBytes = 4 << 20

// staging brings bytes between the Go heap and the device: copies are asynchronous and need pinned memory. Writes go through a
// ring of two halves; a half is filled again only when the copies out of it are done.
type staging struct {
	deadline time.Duration
	write    *cudart.Pinned
	done     [2]*cudart.Event // of the copies out of each half
	busy     [2]bool
	half     int
	at       int64 // next free byte in the half
	read     *cudart.Pinned
}

const halfBytes = stagingBytes / 2

func newStaging(b *cudart.Bound, deadline time.Duration) (*staging, error) {
	s := &staging{deadline: deadline}
	var err error
	if s.write, err = b.AllocPinned(stagingBytes); err == nil {
		s.read, err = b.AllocPinned(stagingBytes)
	}
	for i := range s.done {
		if err == nil {
			s.done[i], err = b.NewEvent(false)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.close(b))
	}
	return s, nil
}

// toDevice queues the copy of src; src has been read when it returns.
func (s *staging) toDevice(b *cudart.Bound, stream *cudart.Stream, dst cudart.Ptr, src []byte) error {
	for len(src) > 0 {
		n := min(int64(len(src)), halfBytes)
		if s.at+n > halfBytes {
			if err := s.turn(b, stream); err != nil {
				return err
			}
		}
		offset := int64(s.half)*halfBytes + s.at
		copy(s.write.Bytes()[offset:], src[:n])
		if err := b.CopyToDevice(stream, dst, s.write, offset, n); err != nil {
			return err
		}
		s.at += (n + 63) &^ 63
		src, dst = src[n:], dst+cudart.Ptr(n)
	}
	return nil
}

// turn goes on to the other half, once the copies out of it are done. Until then, whatever fails, this half stays the one in use.
func (s *staging) turn(b *cudart.Bound, stream *cudart.Stream) error {
	if err := s.done[s.half].Record(b, stream); err != nil {
		return err
	}
	s.busy[s.half] = true
	next := 1 - s.half
	if s.busy[next] {
		if err := s.done[next].Wait(b, s.deadline, "step inputs on their way to the device"); err != nil {
			return err
		}
		s.busy[next] = false
	}
	s.half, s.at = next, 0
	return nil
}

// toHost waits for all queued work and brings bytes back.
func (s *staging) toHost(b *cudart.Bound, stream *cudart.Stream, dst []byte, src cudart.Ptr, what string) error {
	for len(dst) > 0 {
		n := min(int64(len(dst)), stagingBytes)
		if err := b.CopyToHost(stream, s.read, 0, src, n); err != nil {
			return err
		}
		if err := stream.Wait(b, s.deadline, what); err != nil {
			return err
		}
		copy(dst, s.read.Bytes()[:n])
		dst, src = dst[n:], src+cudart.Ptr(n)
	}
	return nil
}

func (s *staging) close(b *cudart.Bound) error {
	var errs []error
	for _, e := range s.done {
		if e != nil {
			errs = append(errs, e.Destroy(b))
		}
	}
	for _, p := range []*cudart.Pinned{s.write, s.read} {
		if p != nil {
			errs = append(errs, p.Free(b))
		}
	}
	return errors.Join(errs...)
}

// Write queues the copy of src to a buffer, before all later runs.
func (b *Backend) Write(dst graph.Buffer, offset int64, src []byte) error {
	at, err := span(dst, offset, int64(len(src)))
	if err != nil {
		return fmt.Errorf("backendcuda: write: %w", err)
	}
	err = b.do(func(bd *cudart.Bound) error { return b.staging.toDevice(bd, b.stream, at, src) })
	if err != nil {
		return fmt.Errorf("backendcuda: write of %d bytes: %w", len(src), err)
	}
	return nil
}

// Read waits for all earlier runs and copies bytes of a buffer to dst.
func (b *Backend) Read(dst []byte, src graph.Buffer, offset int64) error {
	at, err := span(src, offset, int64(len(dst)))
	if err != nil {
		return fmt.Errorf("backendcuda: read: %w", err)
	}
	err = b.do(func(bd *cudart.Bound) error { return b.staging.toHost(bd, b.stream, dst, at, b.last) })
	if err != nil {
		return fmt.Errorf("backendcuda: read of %d bytes after %s: %w", len(dst), b.last, err)
	}
	return nil
}
