// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// Pending is an operation that has begun. Those of one goroutine begin in the order of its calls, which messages of one
// tag and ordered batches look at; those of several goroutines do not. The context of the call is that of the operation,
// as of a call that waits. The memory stays pinned until the end, whether or not anybody waits for it, and is not to be
// touched before.
type Pending struct{ waiter *pending }

// Done is closed at the end of the operation, for a select. To wait for it no longer leaves the operation alone.
func (p *Pending) Done() <-chan struct{} { return p.waiter.done }

// Wait waits for the end of the operation, and returns what the call that waits would have. It may be called more than
// once, and from any goroutine.
func (p *Pending) Wait() error {
	<-p.waiter.done
	return p.waiter.err
}

// BeginPut begins a put of [Endpoint.Put]. An error is that none has begun. [Quiet] is [ErrInval].
func (ep *Endpoint) BeginPut(ctx context.Context, data []byte, ref Ref, offset uint64, options ...OpOption) (*Pending, error) {
	return ep.begin(ctx, data, options, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_put(ep.raw, unsafe.Pointer(unsafe.SliceData(data[:])), ref.raw(), C.uint64_t(offset),
			C.uint64_t(len(data)), word, options)
	})
}

// BeginGet begins a get of [Endpoint.Get]. An error is that none has begun. [Quiet] is [ErrInval].
func (ep *Endpoint) BeginGet(ctx context.Context, memory []byte, ref Ref, offset uint64, options ...OpOption) (*Pending, error) {
	return ep.begin(ctx, memory, options, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_get(ep.raw, unsafe.Pointer(unsafe.SliceData(memory[:])), ref.raw(), C.uint64_t(offset),
			C.uint64_t(len(memory)), word, options)
	})
}

// BeginSend begins a send of [Endpoint.Send]. An error is that none has begun. [Quiet] is [ErrInval].
func (ep *Endpoint) BeginSend(ctx context.Context, data []byte, tag uint64, options ...OpOption) (*Pending, error) {
	return ep.begin(ctx, data, options, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_send(ep.raw, unsafe.Pointer(unsafe.SliceData(data[:])), C.uint64_t(len(data)), C.uint64_t(tag), word,
			options)
	})
}

func (ep *Endpoint) begin(ctx context.Context, memory []byte, options []OpOption, start begin) (*Pending, error) {
	o := joined(options)
	if o.flags&C.XFER_FLAG_QUIET != 0 {
		return nil, refused(ErrInval, "for what is quiet nobody waits")
	}
	given, err := o.raw(ctx)
	if err != nil {
		return nil, err
	}
	pins := &runtime.Pinner{}
	pin(pins, memory)
	return ep.pend(ctx, &ep.handle, o.group, given, start, pins.Unpin)
}

// pend begins an operation of a handle that belongs to the endpoint. over is called once: at its end, or when it has not
// begun.
func (ep *Endpoint) pend(ctx context.Context, h *handle, group uint32, options C.xfer_op_options_t, start begin, over func()) (*Pending, error) {
	e := ep.core
	waiter := &pending{done: make(chan struct{}), ctx: ctx, over: func() {
		over()
		runtime.KeepAlive(ep) // and so the engine: the collector does not close it meanwhile
	}}
	word := e.enter(group, waiter)
	limited := options.timeout_ms != 0
	status := h.use(func() C.xfer_status_t { return start(C.uint64_t(word), &options) })
	if err := failed(status, nil); err != nil {
		e.forget(word)
		over()
		return nil, err
	}
	if ctx.Done() != nil {
		e.watchContext(word, waiter, context.AfterFunc(ctx, func() { e.giveUp(ctx, word, limited) }))
	}
	return &Pending{waiter}, nil
}

// watchContext keeps what stops the watch of a context until the operation ends, and stops it if it has ended.
func (e *core) watchContext(word uint64, waiter *pending, stop func() bool) {
	e.table.Lock()
	defer e.table.Unlock()
	if e.waiters[word] == waiter {
		waiter.stop = stop
	} else {
		stop()
	}
}
