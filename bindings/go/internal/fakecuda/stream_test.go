// SPDX-License-Identifier: Apache-2.0

package fakecuda_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"xfer"
	"xfer/internal/fakecuda"
)

// streaming is a batch that puts memory of the device to the pool, and a stream.
type streaming struct {
	*pair
	stream fakecuda.Stream
	memory []byte
	batch  *xfer.Batch
}

// onStream runs a test on each path.
func onStream(t *testing.T, test func(*streaming)) {
	onDevice(t, func(p *pair) {
		s := &streaming{p, fakecuda.NewStream(), p.device(make([]byte, size)), must(p.ep.Batch())}
		defer fakecuda.End() // behind the batch
		defer s.batch.Close()
		p.ok(s.batch.Put(s.memory, p.ref, 0))
		test(s)
	})
}

func (s *streaming) submit(options xfer.SubmitOptions) *xfer.Pending {
	s.Helper()
	return must(s.batch.SubmitOn(s.ctx, uintptr(s.stream), options))
}

// write is by a kernel.
func (s *streaming) write(seed int) { s.stream.Write(address(s.memory), pattern(seed)) }

// record is an instance of a graph of the batch alone, and what ends with it.
func (s *streaming) record(ctx context.Context) (fakecuda.Instance, *xfer.Pending) {
	s.Helper()
	s.stream.Capture()
	begun := must(s.batch.SubmitOn(ctx, uintptr(s.stream), xfer.SubmitOptions{}))
	instance := s.stream.Captured()
	s.true(instance != 0, "the capture is broken")
	return instance, begun
}

func (s *streaming) run(instance fakecuda.Instance, seed int) {
	s.Helper()
	s.write(seed)
	instance.Launch(s.stream)
	s.passes()
}

func (s *streaming) passes() {
	s.Helper()
	s.true(s.stream.Passes(), "the stream does not go on")
}

func (s *streaming) result(status xfer.Status, runs, failures uint64) {
	s.Helper()
	r := must(s.batch.StreamResult())
	s.true(r == xfer.StreamResult{Status: status, Fenced: true, Runs: runs, Failures: failures, Address: r.Address}, fmt.Sprint(r))
}

func (s *streaming) fails(with error, err error) {
	s.Helper()
	s.true(errors.Is(err, with), fmt.Sprint(err))
}

func under(p *xfer.Pending, limit time.Duration) bool {
	select {
	case <-p.Done():
		return false
	case <-time.After(limit):
		return true
	}
}

// TestOrder: what the stream wrote before is put, and what it writes behind is not.
func TestOrder(t *testing.T) {
	onStream(t, func(s *streaming) {
		told := s.device(make([]byte, 32))
		for round := 0; round < 3; round++ {
			s.stream.Hold(true)
			s.write(1)
			begun := s.submit(xfer.SubmitOptions{})
			s.stream.Copy(address(told), must(s.batch.StreamResult()).Address, len(told))
			s.write(2)
			s.true(under(begun, 30*time.Millisecond) && must(s.batch.Info()).InFlight, "it did not wait for the stream")
			_, err := s.batch.SubmitOn(s.ctx, uintptr(s.stream), xfer.SubmitOptions{})
			s.fails(xfer.ErrBusy, err)
			s.fails(xfer.ErrBusy, s.batch.Submit(s.ctx, xfer.SubmitOptions{}))
			s.result(0, 0, 0)
			runtime.GC() // where only the batch's pins have the memory
			s.stream.Hold(false)
			s.ok(begun.Wait())
			s.passes()
			s.true(bytes.Equal(s.pool, pattern(1)) && bytes.Equal(seen(s.memory), pattern(2)), "another put")
			s.result(0, 1, 0)
			s.true(binary.NativeEndian.Uint64(seen(told)[8:]) == 1, "kernels see another result")
			clear(s.pool)
		}
		s.ok(s.batch.Submit(s.ctx, xfer.SubmitOptions{}))
		_, err := s.batch.StreamResult()
		s.fails(xfer.ErrInval, err)
		s.ok(s.batch.Close())
		_, err = s.batch.StreamResult()
		s.fails(xfer.ErrClosed, err)
		_, err = s.batch.SubmitOn(s.ctx, uintptr(s.stream), xfer.SubmitOptions{})
		s.fails(xfer.ErrClosed, err)
	})
}

// TestGraph: each launch moves what is there then, to where the owner has it then.
func TestGraph(t *testing.T) {
	onStream(t, func(s *streaming) {
		instance, begun := s.record(s.ctx)
		s.true(bytes.Equal(s.pool, make([]byte, size)), "it has moved while it was captured")
		for run := 1; run <= 3; run++ {
			s.run(instance, run)
			s.true(bytes.Equal(s.pool, pattern(run)), "another put")
			s.result(0, uint64(run), 0)
		}
		again := must(s.owner.Alloc(size, xfer.RegionOptions{Access: xfer.Read | xfer.Write}))
		s.ok(s.batch.Rebind(s.ref, must(again.Ref())))
		s.fails(xfer.ErrBusy, s.batch.Put(s.memory, s.ref, 0))
		s.run(instance, 4)
		s.true(bytes.Equal(again.Bytes(), pattern(4)) && bytes.Equal(s.pool, pattern(3)), "it is not bound anew")
		s.ok(again.Close())
		s.run(instance, 5)
		s.result(xfer.ErrStale, 5, 1)
		statuses := make([]xfer.Status, 1)
		s.ok(s.batch.Entries(0, statuses))
		s.true(statuses[0] == xfer.ErrStale, "another entry")
		s.true(under(begun, 0), "it has ended before its graph")
		instance.Free()
		s.ok(begun.Wait())
		s.result(xfer.ErrStale, 5, 1)
	})
}

// TestEarlyEnds: the stream passes, and so do the launches that come.
func TestEarlyEnds(t *testing.T) {
	onStream(t, func(s *streaming) {
		s.stream.Hold(true)
		limited, cancel := context.WithTimeout(s.ctx, 500*time.Millisecond)
		defer cancel()
		begun := must(s.batch.SubmitOn(limited, uintptr(s.stream), xfer.SubmitOptions{}))
		s.fails(context.DeadlineExceeded, begun.Wait())
		begun = s.submit(xfer.SubmitOptions{Group: 7})
		s.ok(s.engine.CancelGroup(7))
		s.fails(xfer.ErrCanceled, begun.Wait())
		s.result(xfer.ErrCanceled, 0, 0)
		s.stream.Hold(false)
		s.passes()
		s.true(bytes.Equal(s.pool, make([]byte, size)), "it has moved")

		ctx, end := context.WithCancel(s.ctx)
		defer end()
		for i, early := range []func(){func() { s.ok(s.batch.Cancel()) }, end, func() { s.ok(s.batch.Close()) }} {
			instance, begun := s.record(ctx)
			s.run(instance, i)
			s.true(bytes.Equal(s.pool, pattern(i)), "another put")
			early()
			s.fails(xfer.ErrCanceled, begun.Wait())
			s.run(instance, 9)
			s.true(bytes.Equal(s.pool, pattern(i)), "it has moved behind its end")
			instance.Free()
			if ctx.Err() != nil {
				ctx = s.ctx
			}
		}
	})
}

// TestStreamRefusals: nothing begins, and the stream goes on.
func TestStreamRefusals(t *testing.T) {
	onStream(t, func(s *streaming) {
		_, err := s.batch.SubmitOn(s.ctx, uintptr(s.stream), xfer.SubmitOptions{Ordered: true})
		s.fails(xfer.ErrUnsupported, err)
		_, err = s.batch.StreamResult()
		s.fails(xfer.ErrInval, err)
		_, err = s.batch.Begin(s.ctx, xfer.SubmitOptions{RunTimeout: time.Second})
		s.fails(xfer.ErrInval, err)
		fakecuda.Fail("cuLaunchHostFunc", 719)
		_, err = s.batch.SubmitOn(s.ctx, uintptr(s.stream), xfer.SubmitOptions{})
		var told *xfer.Error
		s.true(errors.As(err, &told) && told.Status == xfer.ErrIO && told.Origin == xfer.OriginCUDA && told.NativeCode == 719,
			fmt.Sprint(err))
		s.passes()
		options := xfer.SubmitOptions{RunTimeout: time.Minute, Notify: &xfer.Note{Key: 9, Data: []byte("note")}, Checksum: true}
		s.ok(s.submit(options).Wait())
		s.result(0, 1, 0)
	})
}

// TestRunTimeout: it counts from the begin of the run, and the stream goes on where a copy does not.
func TestRunTimeout(t *testing.T) {
	onStream(t, func(s *streaming) {
		s.stream.Hold(true)
		begun := s.submit(xfer.SubmitOptions{RunTimeout: 3 * time.Second})
		s.true(under(begun, 3100*time.Millisecond), "it did not wait for the stream")
		s.stream.Hold(false)
		s.ok(begun.Wait())
		fakecuda.HoldCopies(true)
		defer fakecuda.HoldCopies(false)
		begun = s.submit(xfer.SubmitOptions{RunTimeout: 3 * time.Second})
		s.passes()
		r := must(s.batch.StreamResult())
		s.true(r.Status == xfer.ErrTimedOut && !r.Fenced && r.Runs == 0, fmt.Sprint(r))
		fakecuda.HoldCopies(false)
		s.fails(xfer.ErrTimedOut, begun.Wait())
		s.true(must(s.batch.StreamResult()).Runs == 1, "the run has not ended")
	})
}
