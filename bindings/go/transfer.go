// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// Put writes data to a byte offset in what the ref names. It is applied when Put has returned nil. [ErrRange] past the
// end, [ErrAccess] where the owner allows no writing, [ErrStale] or [ErrRevoked] when the memory is lent no longer, and
// [ErrAgain] where the endpoint has as many operations as it takes; a [Room] follows.
func (ep *Endpoint) Put(ctx context.Context, data []byte, ref Ref, offset uint64, options ...OpOption) error {
	_, err := ep.transfer(ctx, data, ref, options, func(ref *C.xfer_ref_t, word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_put(ep.raw, unsafe.Pointer(unsafe.SliceData(data[:])), ref, C.uint64_t(offset), C.uint64_t(len(data)), word,
			options)
	})
	return err
}

// Get reads from a byte offset in what the ref names, as many bytes as the memory has. Errors are those of [Endpoint.Put];
// after one the memory is undefined.
func (ep *Endpoint) Get(ctx context.Context, memory []byte, ref Ref, offset uint64, options ...OpOption) error {
	_, err := ep.transfer(ctx, memory, ref, options, func(ref *C.xfer_ref_t, word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_get(ep.raw, unsafe.Pointer(unsafe.SliceData(memory[:])), ref, C.uint64_t(offset), C.uint64_t(len(memory)),
			word, options)
	})
	return err
}

// Add adds to the 8 bytes at an offset that is a multiple of 8, else [ErrInval], and returns what they were; with Quiet,
// zero. The region needs [Atomic].
func (ep *Endpoint) Add(ctx context.Context, ref Ref, offset, operand uint64, options ...OpOption) (uint64, error) {
	return ep.atomic(ctx, C.XFER_ATOMIC_ADD, ref, offset, operand, 0, options)
}

// CompareAndSwap stores value in the 8 bytes at an offset if they equal compare, and returns what they were. It is as Add
// otherwise.
func (ep *Endpoint) CompareAndSwap(ctx context.Context, ref Ref, offset, compare, value uint64, options ...OpOption) (uint64, error) {
	return ep.atomic(ctx, C.XFER_ATOMIC_CAS, ref, offset, value, compare, options)
}

func (ep *Endpoint) atomic(ctx context.Context, op C.uint32_t, ref Ref, offset, operand, compare uint64, options []OpOption) (uint64, error) {
	end, err := ep.transfer(ctx, nil, ref, options, func(ref *C.xfer_ref_t, word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_atomic(ep.raw, op, nil, ref, C.uint64_t(offset), C.uint64_t(operand), C.uint64_t(compare),
			word, options)
	})
	return end.index, err
}

// Probe measures a round trip to the peer's engine and back, in nanoseconds.
func (ep *Endpoint) Probe(ctx context.Context, options ...OpOption) (uint64, error) {
	end, err := ep.do(ctx, options, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_ep_probe(ep.raw, word, options)
	})
	return end.bytes, err
}

// Flush waits for all that was begun with this endpoint by calls that returned before, and returns the first failure
// since the last flush that ended by itself. A context that ends gives up the wait alone.
func (ep *Endpoint) Flush(ctx context.Context, options ...OpOption) error {
	var idle C.uint32_t
	var covered []*runtime.Pinner
	defer runtime.KeepAlive(ep)
	o := joined(options)
	given, err := o.raw(ctx)
	if err != nil {
		return err
	}
	word, waiter := ep.core.expect(o.group)
	ep.quiets.Lock() // so that what is covered was begun before
	status := ep.use(func() C.xfer_status_t { return C.xfer_ep_flush(ep.raw, &idle, C.uint64_t(word), &given) })
	if status == C.XFER_OK {
		covered, ep.pins = ep.pins, nil
	}
	ep.quiets.Unlock()
	if status != C.XFER_OK || idle == 1 {
		ep.core.forget(word)
		unpinned(covered)
		return failed(status, nil)
	}
	end, err := ep.core.await(ctx, word, waiter, given.timeout_ms != 0)
	if Status(end.status) == ErrTimedOut || Status(end.status) == ErrCanceled {
		ep.keep(covered) // it may have been the wait that ended
	} else {
		unpinned(covered)
	}
	return err
}

// access begins an operation on what a ref names; one of another kind passes over the ref.
type access func(ref *C.xfer_ref_t, word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t

// transfer begins an operation that may be quiet, and pins its memory.
func (ep *Endpoint) transfer(ctx context.Context, memory []byte, ref Ref, options []OpOption, start access) (event, error) {
	defer runtime.KeepAlive(ep)
	o := joined(options)
	op := operations.Get().(*operation)
	op.ref = ref
	begin := func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return start(op.ref.raw(), word, options)
	}
	if o.flags&C.XFER_FLAG_QUIET != 0 {
		return event{}, ep.quietly(ctx, memory, o, op, begin)
	}
	var pins runtime.Pinner
	defer pins.Unpin()
	pin(&pins, memory)
	return ep.core.run(ctx, &ep.handle, o, op, begin)
}

// quietly begins an operation for which nobody waits, and puts back what C has read by then.
func (ep *Endpoint) quietly(ctx context.Context, memory []byte, o OpOption, op *operation, start begin) (err error) {
	defer operations.Put(op)
	if op.options, err = o.raw(ctx); err != nil {
		return err
	}
	pins := &runtime.Pinner{}
	pin(pins, memory)
	ep.core.table.Lock()
	word := ep.core.word(o.group)
	ep.core.table.Unlock()
	ep.quiets.Lock()
	defer ep.quiets.Unlock()
	status := ep.use(func() C.xfer_status_t { return start(C.uint64_t(word), &op.options) })
	if status != C.XFER_OK || o.flags&C.XFER_FLAG_COPY != 0 || len(memory) == 0 {
		pins.Unpin()
	} else {
		ep.pins, ep.pinned = append(ep.pins, pins), true
	}
	return failed(status, nil)
}

// keep puts pins back, unless the endpoint has ended meanwhile.
func (ep *endpoint) keep(pins []*runtime.Pinner) {
	ep.quiets.Lock()
	defer ep.quiets.Unlock()
	if ep.idle {
		unpinned(pins)
		return
	}
	ep.pins = append(ep.pins, pins...)
}

// unpin is for the end of the endpoint.
func (ep *endpoint) unpin() {
	ep.quiets.Lock()
	defer ep.quiets.Unlock()
	unpinned(ep.pins)
	ep.pins, ep.idle = nil, true
}

func unpinned(pins []*runtime.Pinner) {
	for _, p := range pins {
		p.Unpin()
	}
}
