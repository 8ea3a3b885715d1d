package backendcuda

import (
	"errors"
	"fmt"
	"sync"
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
	arrived  [readSlots]*cudart.Event // of the copies into each part of read
}

const (
	halfBytes = stagingBytes / 2
	readSlots = 4
	slotBytes = stagingBytes / readSlots
)

func newStaging(b *cudart.Bound, deadline time.Duration) (*staging, error) {
	s := &staging{deadline: deadline}
	var err error
	if s.write, err = b.AllocPinned(stagingBytes); err == nil {
		s.read, err = b.AllocPinned(stagingBytes)
	}
	for _, events := range [][]*cudart.Event{s.done[:], s.arrived[:]} {
		for i := range events {
			if err == nil {
				events[i], err = b.NewEvent(false)
			}
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

// toHost waits for all queued work and brings bytes back; of many, parts arrive while others are copied on to dst.
func (s *staging) toHost(b *cudart.Bound, stream *cudart.Stream, dst []byte, src cudart.Ptr, what string) error {
	total := int64(len(dst))
	if total <= stagingBytes {
		if total == 0 {
			return nil
		}
		if err := b.CopyToHost(stream, s.read, 0, src, total); err != nil {
			return err
		}
		if err := stream.Wait(b, s.deadline, what); err != nil {
			return err
		}
		copy(dst, s.read.Bytes())
		return nil
	}
	queue := func(slot int, at int64) error {
		if at >= total {
			return nil
		}
		if err := b.CopyToHost(stream, s.read, int64(slot)*slotBytes, src+cudart.Ptr(at), min(total-at, slotBytes)); err != nil {
			return err
		}
		return s.arrived[slot].Record(b, stream)
	}
	for slot := range readSlots {
		if err := queue(slot, int64(slot)*slotBytes); err != nil {
			return err
		}
	}
	for at, slot := int64(0), 0; at < total; at, slot = at+slotBytes, (slot+1)%readSlots {
		if err := s.arrived[slot].Wait(b, s.deadline, what); err != nil {
			return err
		}
		if to, from := dst[at:min(at+slotBytes, total)], s.read.Bytes()[slot*slotBytes:]; total < wideBytes {
			copy(to, from)
		} else {
			copyWide(to, from)
		}
		if err := queue(slot, at+readSlots*slotBytes); err != nil {
			return err
		}
	}
	// All has ended. An event doesn't say so of the stream, and after a wait that timed out nothing may be freed until one has.
	return stream.Wait(b, s.deadline, what)
}

// wideBytes is from how many bytes on several threads copy out of pinned memory: one alone reads what a device wrote at a fraction of
// what the bus brings, but to wake the others takes longer than to copy less.
const wideBytes = 8 << 20

// copyWide copies len(dst) bytes by several threads.
func copyWide(dst, src []byte) {
	const share = slotBytes / 4
	var wg sync.WaitGroup
	for len(dst) > share {
		to, from := dst[:share], src[:share]
		wg.Go(func() { copy(to, from) })
		dst, src = dst[share:], src[share:]
	}
	copy(dst, src)
	wg.Wait()
}

func (s *staging) close(b *cudart.Bound) error {
	var errs []error
	for _, events := range [][]*cudart.Event{s.done[:], s.arrived[:]} {
		for _, e := range events {
			if e != nil {
				errs = append(errs, e.Destroy(b))
			}
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
