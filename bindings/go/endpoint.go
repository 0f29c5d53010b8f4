// SPDX-License-Identifier: Apache-2.0

//go:build go1.21

package xfer

// #include <stdlib.h>
// #include <xfer/text.h>
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// Ref names a peer's region, or a part of it; it is carried as bytes by any means.
type Ref [96]byte

func (r *Ref) raw() *C.xfer_ref_t { return (*C.xfer_ref_t)(unsafe.Pointer(r)) }

// Endpoint is a peer that was dialed, or that came. It stays until Close, also while the peer is away.
type Endpoint struct {
	handle
	engine *Engine
	raw    *C.xfer_ep_t
}

// Dial opens an endpoint of the engine at uri; its first use connects.
func (e *Engine) Dial(uri string) (*Endpoint, error) {
	text := C.CString(uri)
	defer C.free(unsafe.Pointer(text))
	ep := &Endpoint{engine: e}
	ep.word, ep.gone = e.expect()
	options := C.xfer_ep_options_t{user: C.uint64_t(ep.word)}
	options.size = C.uint32_t(unsafe.Sizeof(options))
	var detail C.xfer_error_t
	err := failed(e.use(func() C.xfer_status_t {
		return C.xfer_ep_open(e.raw, text, &options, &ep.raw, &detail)
	}), &detail)
	if err != nil {
		e.forget(ep.word)
		return nil, err
	}
	ep.own()
	return ep, nil
}

// newEndpoint is one for the handle of a PEER event, whose word no other handle nor operation has.
func (e *Engine) newEndpoint(raw *C.xfer_ep_t, word uint64) {
	ep := &Endpoint{engine: e, raw: raw}
	ep.word, ep.gone = word, make(chan outcome, 1)
	e.table.Lock()
	e.waiters[word] = ep.gone
	e.table.Unlock()
	ep.own()
}

func (ep *Endpoint) own() {
	raw := ep.raw
	ep.end = func() C.xfer_status_t { return C.xfer_ep_close(raw) }
	ep.engine.hold(ep.word, ep)
}

// AddAddress tells where else the peer is, such as after its restart.
func (ep *Endpoint) AddAddress(uri string) error {
	text := C.CString(uri)
	defer C.free(unsafe.Pointer(text))
	var detail C.xfer_error_t
	return failed(ep.use(func() C.xfer_status_t { return C.xfer_ep_add_address(ep.raw, text, &detail) }), &detail)
}

// Connect connects now, so that the first operation need not.
func (ep *Endpoint) Connect(ctx context.Context) error {
	_, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_ep_connect(ep.raw, word, options)
	})
	return err
}

// Lookup asks for the ref and the blob of a region; wait: until it is there.
func (ep *Endpoint) Lookup(ctx context.Context, name string, wait bool) (ref Ref, blob []byte, err error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	end, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		if wait {
			options.flags |= C.XFER_FLAG_WAIT
		}
		return C.xfer_ep_lookup(ep.raw, text, word, options, nil)
	})
	if err == nil {
		blob = end.data[copy(ref[:], end.data):]
	}
	return ref, blob, err
}

// Put writes data to offset of what the ref names.
func (ep *Endpoint) Put(ctx context.Context, data []byte, ref Ref, offset uint64) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pin(&pinner, data)
	_, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_put(ep.raw, start(data), ref.raw(), C.uint64_t(offset), C.uint64_t(len(data)), word, options)
	})
	return err
}

// Get reads from offset of what the ref names into memory.
func (ep *Endpoint) Get(ctx context.Context, memory []byte, ref Ref, offset uint64) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pin(&pinner, memory)
	_, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_get(ep.raw, start(memory), ref.raw(), C.uint64_t(offset), C.uint64_t(len(memory)), word, options)
	})
	return err
}

// Add adds to a word of the peer's, and returns what it was.
func (ep *Endpoint) Add(ctx context.Context, ref Ref, offset, operand uint64) (uint64, error) {
	return ep.atomic(ctx, C.XFER_ATOMIC_ADD, ref, offset, operand, 0)
}

// CompareAndSwap stores value if the word of the peer's equals compare, and returns what it was.
func (ep *Endpoint) CompareAndSwap(ctx context.Context, ref Ref, offset, compare, value uint64) (uint64, error) {
	return ep.atomic(ctx, C.XFER_ATOMIC_CAS, ref, offset, value, compare)
}

func (ep *Endpoint) atomic(ctx context.Context, op C.uint32_t, ref Ref, offset, operand, compare uint64) (uint64, error) {
	end, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_atomic(ep.raw, op, nil, ref.raw(), C.uint64_t(offset), C.uint64_t(operand), C.uint64_t(compare),
			word, options)
	})
	return end.index, err
}

// Send sends a message; sync: it returns when the message was received, not when it is held.
func (ep *Endpoint) Send(ctx context.Context, data []byte, tag uint64, sync bool) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pin(&pinner, data)
	_, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		if sync {
			options.flags = C.XFER_FLAG_SYNC
		}
		return C.xfer_send(ep.raw, start(data), C.uint64_t(len(data)), C.uint64_t(tag), word, options)
	})
	return err
}

// Notify raises a notice at the peer, with a key and at most 1,024 bytes.
func (ep *Endpoint) Notify(ctx context.Context, data []byte, key uint64) error {
	_, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_notify(ep.raw, start(data), C.uint64_t(len(data)), C.uint64_t(key), word, options)
	})
	return err
}

// Flush waits for all that was begun with this endpoint before.
func (ep *Endpoint) Flush(ctx context.Context) error {
	_, err := ep.engine.do(ctx, &ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_ep_flush(ep.raw, nil, word, options)
	})
	return err
}

// Batch is puts and gets that are submitted together, as often as wanted, from one goroutine at a time.
type Batch struct {
	ep     *Endpoint
	raw    *C.xfer_batch_t
	count  int
	memory runtime.Pinner
}

// Batch makes an empty one. Memory of its entries is pinned until its Close.
func (ep *Endpoint) Batch() (*Batch, error) {
	b := &Batch{ep: ep}
	var detail C.xfer_error_t
	return b, failed(ep.use(func() C.xfer_status_t { return C.xfer_batch_open(ep.raw, nil, &b.raw, &detail) }), &detail)
}

// Put adds a put.
func (b *Batch) Put(data []byte, ref Ref, offset uint64) error {
	pin(&b.memory, data)
	return b.added(C.xfer_batch_put(b.raw, start(data), ref.raw(), C.uint64_t(offset), C.uint64_t(len(data))))
}

// Get adds a get.
func (b *Batch) Get(memory []byte, ref Ref, offset uint64) error {
	pin(&b.memory, memory)
	return b.added(C.xfer_batch_get(b.raw, start(memory), ref.raw(), C.uint64_t(offset), C.uint64_t(len(memory))))
}

func (b *Batch) added(status C.xfer_status_t) error {
	if status == C.XFER_OK {
		b.count++
	}
	return failed(status, nil)
}

// Note is the notification that may follow a batch.
type Note struct {
	Key  uint64
	Data []byte
}

// Submit starts the batch, and waits for its event. note may be nil.
func (b *Batch) Submit(ctx context.Context, note *Note) error {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	_, err := b.ep.engine.do(ctx, &b.ep.handle, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		submit := C.xfer_submit_options_t{timeout_ms: options.timeout_ms}
		submit.size = C.uint32_t(unsafe.Sizeof(submit))
		if note != nil {
			pin(&pinner, note.Data)
			submit.flags, submit.notify_key = C.XFER_SUBMIT_NOTIFY, C.uint64_t(note.Key)
			submit.notify_data, submit.notify_length = start(note.Data), C.uint64_t(len(note.Data))
		}
		return C.xfer_batch_submit(b.raw, word, &submit)
	})
	return err
}

// Entries are the statuses of the entries in the last submit.
func (b *Batch) Entries() ([]Status, error) {
	statuses := make([]Status, b.count)
	first := (*C.xfer_status_t)(unsafe.Pointer(unsafe.SliceData(statuses)))
	return statuses, failed(C.xfer_batch_entries(b.raw, 0, C.uint64_t(b.count), first), nil)
}

// Close frees the batch, which is not under way.
func (b *Batch) Close() error {
	err := failed(C.xfer_batch_close(b.raw), nil)
	b.memory.Unpin()
	return err
}
