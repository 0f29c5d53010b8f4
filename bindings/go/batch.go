// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdint.h>
#include <xfer/xfer.h>

// The data of the notification come as a number: in a struct of Go, cgo looks for pointers in all of the object that has
// them.
static xfer_status_t submit(xfer_batch_t *batch, uint64_t user, const xfer_submit_options_t *given, uintptr_t data) {
	xfer_submit_options_t options = *given;
	options.notify_data = (const void *)data;
	return xfer_batch_submit(batch, user, &options);
}
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
	"time"
	"unsafe"
)

// Direction is what an entry of a batch does.
type Direction uint32

// The directions.
const (
	PutEntries Direction = C.XFER_OP_PUT
	GetEntries Direction = C.XFER_OP_GET
)

// Batch is puts and gets with one endpoint that are submitted together, as often as wanted. Its calls come from one
// goroutine at a time, else they are [ErrBusy]; but for Cancel, Info and Close. Memory of its entries stays pinned until
// Reset or Close.
type Batch struct {
	*handle // which the engine has as well, without this value
	ep      *Endpoint
	raw     *C.xfer_batch_t
	word    uint64
	calls   sync.Mutex // held by the one call that it takes at a time, and guards memory
	memory  *runtime.Pinner
	submits sync.WaitGroup // under way
	stream  streamResult   // of the last submit
}

// Batch is an empty one.
func (ep *Endpoint) Batch() (*Batch, error) {
	defer runtime.KeepAlive(ep)
	b := &Batch{handle: newHandle(), ep: ep, word: ep.core.newWord(), memory: &runtime.Pinner{}}
	b.quiet = b.memory.Unpin
	var detail C.xfer_error_t
	err := failed(ep.core.use(func() C.xfer_status_t {
		return ep.use(func() C.xfer_status_t {
			status := C.xfer_batch_open(ep.raw, nil, &b.raw, &detail)
			if status == C.XFER_OK {
				raw := b.raw
				b.end = func() C.xfer_status_t { return C.xfer_batch_close(raw) }
				ep.core.hold(b.word, b.handle)
			}
			return status
		})
	}), &detail)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Put adds a put, as one entry.
func (b *Batch) Put(data []byte, ref Ref, offset uint64) error {
	return b.add(data, func() C.xfer_status_t {
		return C.xfer_batch_put(b.raw, unsafe.Pointer(unsafe.SliceData(data[:])), ref.raw(), C.uint64_t(offset),
			C.uint64_t(len(data)))
	}, nil)
}

// Get adds a get, as one entry.
func (b *Batch) Get(memory []byte, ref Ref, offset uint64) error {
	return b.add(memory, func() C.xfer_status_t {
		return C.xfer_batch_get(b.raw, unsafe.Pointer(unsafe.SliceData(memory[:])), ref.raw(), C.uint64_t(offset),
			C.uint64_t(len(memory)))
	}, nil)
}

// Span is memory, and where its bytes are in what a ref names.
type Span struct {
	Local  []byte
	Offset uint64
}

// AddSpans adds spans of one ref; each is an entry. After an error nothing was added.
func (b *Batch) AddSpans(what Direction, ref Ref, spans []Span) error {
	raw := make([]C.xfer_span_t, len(spans))
	for i, span := range spans {
		raw[i].local, raw[i].length = C.uint64_t(uintptr(start(span.Local))), C.uint64_t(len(span.Local))
		raw[i].offset = C.uint64_t(span.Offset)
	}
	var detail C.xfer_error_t
	return b.add(nil, func() C.xfer_status_t {
		for _, span := range spans {
			pin(b.memory, span.Local)
		}
		return C.xfer_batch_add_spans(b.raw, C.uint32_t(what), ref.raw(), unsafe.SliceData(raw),
			C.uint32_t(unsafe.Sizeof(C.xfer_span_t{})), C.uint64_t(len(raw)), &detail)
	}, &detail)
}

// Strided is Count blocks of Length bytes, so many bytes from one to the next, from the beginning of Local and from
// Offset in what the ref names.
type Strided struct {
	Local         []byte
	LocalStride   uint64
	Remote        Ref
	Offset        uint64
	RemoteStride  uint64
	Length, Count uint64
}

// AddStrided adds equal blocks at equal distances; each is an entry. After an error nothing was added. What would leave
// Local is [ErrRange].
func (b *Batch) AddStrided(what Direction, strided Strided) error {
	if strided.Count > 0 && !fits(len(strided.Local), strided.Count-1, strided.LocalStride, strided.Length) {
		return refused(ErrRange, "the blocks do not lie in the local memory")
	}
	remote := strided.Remote // in an object of its own: cgo looks for pointers in all of it
	var pins runtime.Pinner
	defer pins.Unpin()
	pins.Pin(&remote)
	raw := C.xfer_strided_t{local: C.uint64_t(uintptr(start(strided.Local))),
		local_stride: C.uint64_t(strided.LocalStride), remote: remote.raw(), offset: C.uint64_t(strided.Offset),
		remote_stride: C.uint64_t(strided.RemoteStride), length: C.uint64_t(strided.Length),
		count: C.uint64_t(strided.Count)}
	raw.size = C.uint32_t(unsafe.Sizeof(raw))
	var detail C.xfer_error_t
	return b.add(strided.Local, func() C.xfer_status_t {
		return C.xfer_batch_add_strided(b.raw, C.uint32_t(what), &raw, &detail)
	}, &detail)
}

// add pins memory, and adds entries.
func (b *Batch) add(memory []byte, call func() C.xfer_status_t, detail *C.xfer_error_t) error {
	defer runtime.KeepAlive(b)
	return failed(b.use(func() C.xfer_status_t {
		return b.alone(func() C.xfer_status_t {
			pin(b.memory, memory)
			return call()
		})
	}), detail)
}

// alone calls unless another call is in. The library refuses that as well, but does not guard the pins.
func (b *Batch) alone(call func() C.xfer_status_t) C.xfer_status_t {
	if !b.calls.TryLock() {
		return C.XFER_EBUSY
	}
	defer b.calls.Unlock()
	return call()
}

// Rebind replaces the ref from by to in all entries, as after the owner's restart.
func (b *Batch) Rebind(from, to Ref) error {
	var detail C.xfer_error_t
	return b.add(nil, func() C.xfer_status_t { return C.xfer_batch_rebind(b.raw, from.raw(), to.raw(), &detail) }, &detail)
}

// Note is the notification that may follow a batch, of at most 1,024 bytes.
type Note struct {
	Key  uint64
	Data []byte
}

// SubmitOptions are those of one submit; zero means the default.
type SubmitOptions struct {
	Ordered  bool  // begins when all that was submitted on its endpoint before has ended
	Checksum bool  // a CRC-32C goes with every payload
	Notify   *Note // tells the owner when all data were applied, or that the batch failed
	Group    uint32
	Trace    uint64
	// RunTimeout is for SubmitOn alone, else [ErrInval]: of each run, from its begin; zero is that of the engine.
	RunTimeout time.Duration
}

// Submit starts the batch, and waits for its event. It may be submitted again, unchanged or with more entries. Of a
// batch that fails, Error.Index is the first failed entry.
func (b *Batch) Submit(ctx context.Context, options SubmitOptions) error {
	begun, err := b.Begin(ctx, options)
	if err != nil {
		return err
	}
	return begun.Wait()
}

// Begin starts the batch, as [Batch.Submit] does, and returns. An error is that it was not started.
func (b *Batch) Begin(ctx context.Context, options SubmitOptions) (*Pending, error) {
	if options.RunTimeout != 0 {
		return nil, refused(ErrInval, "RunTimeout is of runs on a stream")
	}
	given, err := OpOption{group: options.Group, trace: options.Trace}.raw(ctx)
	if err != nil {
		return nil, err
	}
	return b.submit(ctx, options, given, func(word C.uint64_t, raw *C.xfer_submit_options_t, data C.uintptr_t) C.xfer_status_t {
		status := C.submit(b.raw, word, raw, data)
		if status == C.XFER_OK {
			b.stream.clear()
		}
		return status
	})
}

// submission starts a batch; the data are those of the notification.
type submission func(word C.uint64_t, raw *C.xfer_submit_options_t, data C.uintptr_t) C.xfer_status_t

func (b *Batch) submit(ctx context.Context, options SubmitOptions, given C.xfer_op_options_t, begin submission) (*Pending, error) {
	counted := b.use(func() C.xfer_status_t { // Close waits for it from here on
		b.submits.Add(1)
		return C.XFER_OK
	})
	if err := failed(counted, nil); err != nil {
		return nil, err
	}
	return b.ep.pend(ctx, b.handle, options.Group, given, func(word C.uint64_t, given *C.xfer_op_options_t) C.xfer_status_t {
		var pins runtime.Pinner // for the call, which copies
		defer pins.Unpin()
		raw, data := options.raw(given), options.data()
		pin(&pins, data)
		return b.alone(func() C.xfer_status_t { return begin(word, &raw, C.uintptr_t(uintptr(start(data)))) })
	}, b.submits.Done)
}

func (o SubmitOptions) raw(given *C.xfer_op_options_t) C.xfer_submit_options_t {
	raw := C.xfer_submit_options_t{timeout_ms: given.timeout_ms, trace: given.trace}
	raw.size = C.uint32_t(unsafe.Sizeof(raw))
	if o.Ordered {
		raw.flags |= C.XFER_SUBMIT_ORDERED
	}
	if o.Checksum {
		raw.flags |= C.XFER_SUBMIT_CHECKSUM
	}
	if o.Notify != nil {
		raw.flags |= C.XFER_SUBMIT_NOTIFY
		raw.notify_key, raw.notify_length = C.uint64_t(o.Notify.Key), C.uint64_t(len(o.Notify.Data))
	}
	return raw
}

// data are those of the notification.
func (o SubmitOptions) data() []byte {
	if o.Notify == nil {
		return nil
	}
	return o.Notify.Data
}

// Cancel asks for an early end of the submit that is under way, which returns when its event comes; [ErrInval] if none
// is.
func (b *Batch) Cancel() error {
	defer runtime.KeepAlive(b)
	return failed(b.use(func() C.xfer_status_t { return C.xfer_batch_cancel(b.raw) }), nil)
}

// BatchInfo is of the submit that is under way, or else of the last one.
type BatchInfo struct {
	InFlight    bool
	Status      Status // with which it ended
	Entries     uint64 // how many it has
	Bytes       uint64 // known to have moved
	FirstFailed uint64
}

// Info is how far the batch is.
func (b *Batch) Info() (BatchInfo, error) {
	defer runtime.KeepAlive(b)
	var info C.xfer_batch_info_t
	err := failed(b.use(func() C.xfer_status_t {
		return C.xfer_batch_info(b.raw, &info, C.uint32_t(unsafe.Sizeof(info)))
	}), nil)
	return BatchInfo{info.state == C.XFER_BATCH_INFLIGHT, Status(info.status), uint64(info.entries), uint64(info.bytes),
		uint64(info.first_failed)}, err
}

// Entries writes the statuses of entries of the last submit, from the first one on, as many as there is room for.
// [ErrCanceled] stands for what was not attempted.
func (b *Batch) Entries(first uint64, statuses []Status) error {
	return b.add(nil, func() C.xfer_status_t {
		return C.xfer_batch_entries(b.raw, C.uint64_t(first), C.uint64_t(len(statuses)),
			(*C.xfer_status_t)(unsafe.Pointer(unsafe.SliceData(statuses))))
	}, nil)
}

// Reset empties the batch, so that other entries can be added.
func (b *Batch) Reset() error {
	return b.add(nil, func() C.xfer_status_t {
		status := C.xfer_batch_reset(b.raw)
		if status == C.XFER_OK {
			b.memory.Unpin()
		}
		return status
	}, nil)
}

// Close ends the batch. One that is under way is canceled, and waited for.
func (b *Batch) Close() error {
	defer runtime.KeepAlive(b)
	err := b.start()
	if err == nil {
		b.submits.Wait()
		b.ep.core.release(b.word, b.handle)
	}
	return err
}

// fits: blocks of that length, the last of them at that index, lie in so many bytes.
func fits(size int, last, stride, length uint64) bool {
	room := uint64(size)
	if length > room {
		return false
	}
	return last == 0 || stride == 0 || last <= (room-length)/stride
}
