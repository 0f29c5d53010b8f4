// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"
	"unsafe"
)

// OpOption changes how one operation is done. Which one takes which, the header says; another is [ErrInval].
type OpOption struct {
	flags   C.uint32_t
	group   uint32
	trace   uint64
	endless bool
}

var (
	// Sync lets a send end when the message was received, not when the peer holds it.
	Sync = OpOption{flags: C.XFER_FLAG_SYNC}
	// Quiet lets a put, get, atomic, send or notification return when it has begun. [Endpoint.Flush] waits for it, and
	// its memory stays pinned until a flush has ended by itself, or the endpoint has ended. If it fails, a
	// [QuietFailed] comes as well. Of the context only the deadline is used.
	Quiet = OpOption{flags: C.XFER_FLAG_QUIET}
	// Copy has the bytes of a put or send, at most 4,096, copied: with Quiet they are the caller's again at once.
	Copy = OpOption{flags: C.XFER_FLAG_COPY}
	// Wait lets a lookup wait until the name is there.
	Wait = OpOption{flags: C.XFER_FLAG_WAIT}
	// NoDeadline leaves an operation whose context has no deadline to the stall limit, also if the engine has a timeout.
	NoDeadline = OpOption{endless: true}
)

// MaxGroup is the largest number of a group: a group and a number that counts are the 64 bits of an operation's word, the
// highest of which is the library's.
const MaxGroup = 1<<31 - 1

// Group puts an operation into a group, such as that of one request, which [Engine.CancelGroup] ends by one call. Zero
// is the group of all that have none.
func Group(number uint32) OpOption { return OpOption{group: number} }

// Trace is shown in logs.
func Trace(number uint64) OpOption { return OpOption{trace: number} }

// event is a copy of what an engine tells.
type event struct {
	kind, flags, origin     uint32
	status, nativeCode      int32
	user, bytes, tag, index uint64
	data                    []byte
	ep                      *C.xfer_ep_t
}

// pending is what has one event to come.
type pending struct {
	done chan struct{} // closed when it came; of an operation it gets a value, as that is used again
	end  event
	ctx  context.Context // of what was only begun, else nil: err is for it
	err  error
	over func()      // called by the engine's goroutine when done is closed; or nil
	stop func() bool // ends the watch of the context; or nil. Guarded by the table

	reused bool // part of an operation
}

// expect is a new word, and what its event will end.
func (e *core) expect(group uint32) (uint64, *pending) {
	waiter := &pending{done: make(chan struct{})}
	return e.enter(group, waiter), waiter
}

// enter gives a word to what has an event to come.
func (e *core) enter(group uint32, waiter *pending) uint64 {
	e.table.Lock()
	defer e.table.Unlock()
	word := e.word(group)
	e.waiters[word] = waiter
	return word
}

// word is one that nothing has which is known: the group in the high half, whose highest bit is of peers' endpoints.
// The table is locked.
func (e *core) word(group uint32) uint64 {
	for {
		e.last++
		word := uint64(group)<<32 | uint64(e.last)
		_, waits := e.waiters[word]
		_, held := e.handles[word]
		if !waits && !held {
			return word
		}
	}
}

func (e *core) forget(word uint64) {
	e.table.Lock()
	defer e.table.Unlock()
	delete(e.waiters, word)
}

type begin func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t

// joined is all of the given options.
func joined(given []OpOption) (all OpOption) {
	for _, o := range given {
		all.flags |= o.flags
		all.group |= o.group
		all.trace |= o.trace
		all.endless = all.endless || o.endless
	}
	return all
}

func (o OpOption) raw(ctx context.Context) (C.xfer_op_options_t, error) {
	options := C.xfer_op_options_t{flags: o.flags, trace: C.uint64_t(o.trace)}
	options.size = C.uint32_t(unsafe.Sizeof(options))
	if o.group > MaxGroup {
		return options, refused(ErrInval, "a group has at most 31 bits")
	}
	if deadline, ok := ctx.Deadline(); ok {
		options.timeout_ms = milliseconds(time.Until(deadline))
	} else if o.endless {
		options.timeout_ms = C.XFER_NONE
	}
	return options, ended(ctx)
}

// milliseconds are at least one, and XFER_NONE for what is too long.
func milliseconds(left time.Duration) C.uint32_t {
	return C.uint32_t(min(max((int64(left)-1)/int64(time.Millisecond)+1, 1), math.MaxUint32))
}

// operation is what a call that waits has until it returns, and what C reads in it. It is used again: one event comes for
// each that has begun, and the call takes it before it puts the operation back.
type operation struct {
	pending
	options C.xfer_op_options_t
	ref     Ref // of a transfer
}

var operations = sync.Pool{New: func() any {
	return &operation{pending: pending{done: make(chan struct{}, 1), reused: true}}
}}

// do begins an operation of that handle, and waits for its event.
func (e *core) do(ctx context.Context, h *handle, o OpOption, start begin) (event, error) {
	return e.run(ctx, h, o, operations.Get().(*operation), start)
}

// run begins that operation, waits for its event, and puts it back.
func (e *core) run(ctx context.Context, h *handle, o OpOption, op *operation, start begin) (end event, err error) {
	if op.options, err = o.raw(ctx); err != nil {
		operations.Put(op)
		return event{}, err
	}
	word := e.enter(o.group, &op.pending)
	status := h.use(func() C.xfer_status_t { return start(C.uint64_t(word), &op.options) })
	if err = failed(status, nil); err != nil {
		e.forget(word)
	} else {
		end, err = e.await(ctx, word, &op.pending, op.options.timeout_ms != 0)
		op.end = event{} // its data are the caller's
	}
	operations.Put(op)
	return end, err
}

// await waits for an event. When the context ends it asks for an early end, once, unless the operation has the same
// deadline, and waits on: the memory is not quiet before.
func (e *core) await(ctx context.Context, word uint64, waiter *pending, limited bool) (event, error) {
	select {
	case <-waiter.done:
	case <-ctx.Done():
		e.giveUp(ctx, word, limited)
		<-waiter.done
	}
	return waiter.end, waiter.end.failureBy(ctx)
}

// giveUp asks for an early end of an operation whose context has ended, but leaves a deadline that it has to the library.
func (e *core) giveUp(ctx context.Context, word uint64, limited bool) {
	if !limited || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.cancel(nil, word, math.MaxUint64)
	}
}

// failureBy is nil, or what the event of an operation says, with the context as its cause where that ended it.
func (e *event) failureBy(ctx context.Context) error {
	err := e.failure()
	if err == nil {
		return nil
	}
	if err.Status == ErrTimedOut && passed(ctx) {
		err.Cause = context.DeadlineExceeded
	} else if err.Status == ErrCanceled {
		err.Cause = ctx.Err()
	}
	return err
}

// passed: the context's deadline, by the library's clock, which may be some milliseconds ahead of Go's timers.
func passed(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return limited && time.Until(deadline) < 10*time.Millisecond
}

func (e *core) cancel(ep *C.xfer_ep_t, word, mask uint64) error {
	return failed(e.use(func() C.xfer_status_t {
		return C.xfer_cancel(e.raw, ep, C.uint64_t(word), C.uint64_t(mask))
	}), nil)
}
