// SPDX-License-Identifier: Apache-2.0

//go:build go1.21

// Package xfer moves bytes between the memories of processes; it is a seed of the binding of libxfer.
//
// What ends with an event takes a context, and returns when the event came: a context that is canceled asks for an early
// end, its deadline is the operation's. Memory is pinned until then, so nothing touches it after the return. One
// goroutine of each engine takes the events, by the engine's descriptor: no thread of the library enters Go.
package xfer

/*
#cgo pkg-config: xfer
#include <stdlib.h>
#include <xfer/text.h>

#if XFER_VERSION < 0x000100 || XFER_VERSION >= 0x000200
#error "this binding is for libxfer 0.1: before 1.0 the ABI is that of one minor version"
#endif
*/
import "C"

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const burst = 64 // events taken with one poll

// Any is a mask by which no bit of a tag is looked at.
const Any uint64 = 0

// Exact is a mask by which the whole tag is compared.
const Exact uint64 = 1<<64 - 1

// What peers may do with a region.
const (
	Read   = C.XFER_READ
	Write  = C.XFER_WRITE
	Atomic = C.XFER_ATOMIC
)

// Notice is an event that ends no operation, such as a peer's notification.
type Notice struct {
	Kind   string // as xfer_event_name has it, such as "XFER_EVENT_PEER_UP"
	Status Status
	Flags  uint32
	Peer   *Endpoint // nil if it is gone
	Tag    uint64
	Data   []byte
}

// outcome is a copy of an event.
type outcome struct {
	kind, flags, origin C.uint32_t
	status              C.xfer_status_t
	nativeCode          C.int32_t
	bytes, tag, index   uint64
	data                []byte
	ep                  *Endpoint
}

// Engine is one engine with the goroutine that takes its events.
type Engine struct {
	handle
	raw      *C.xfer_engine_t
	file     *os.File // Go's own poller watches the descriptor
	onNotice func(Notice)
	over     bool // of the goroutine: the last event was taken
	ended    chan struct{}
	joined   sync.Once

	table   sync.Mutex
	last    uint64
	waiters map[uint64]chan outcome
	handles map[uint64]closer
}

type closer interface{ start() error }

// handle is what the library has until its CLOSED event.
type handle struct {
	mutex  sync.RWMutex // read: a call uses the handle, which no close takes meanwhile
	closed bool
	word   uint64
	gone   chan outcome
	end    func() C.xfer_status_t
}

// use calls with a handle that is not closed.
func (h *handle) use(call func() C.xfer_status_t) C.xfer_status_t {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	if h.closed {
		return C.XFER_ECLOSED
	}
	return call()
}

// start begins the end, once.
func (h *handle) start() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	return failed(h.end(), nil)
}

// Close ends the handle, and returns when nothing uses its memory any more. Closing again waits as well.
func (h *handle) Close() error {
	err := h.start()
	if err == nil {
		h.gone <- <-h.gone // of capacity 1: whoever else waits finds it, too
	}
	return err
}

// Open opens an engine. onNotice may be nil; it must not wait for operations. Options are those of xfer_engine_option_set.
func Open(onNotice func(Notice), options map[string]string) (*Engine, error) {
	e := &Engine{onNotice: onNotice, ended: make(chan struct{}), waiters: map[uint64]chan outcome{},
		handles: map[uint64]closer{}}
	var detail C.xfer_error_t
	given := C.xfer_engine_options_t{dispatch: C.XFER_DISPATCH_POLL, flags: C.XFER_ENGINE_OWN_PEERS}
	given.size = C.uint32_t(unsafe.Sizeof(given))
	for name, value := range options {
		name, value := C.CString(name), C.CString(value)
		defer C.free(unsafe.Pointer(name))
		defer C.free(unsafe.Pointer(value))
		if err := failed(C.xfer_engine_option_set(&given, name, value, &detail), &detail); err != nil {
			return nil, err
		}
	}
	e.word, e.gone = e.expect()
	given.user = C.uint64_t(e.word)
	var raw *C.xfer_engine_t
	if err := failed(C.xfer_engine_open(&given, &raw, &detail), &detail); err != nil {
		return nil, err
	}
	e.raw = raw
	e.end = func() C.xfer_status_t { return C.xfer_engine_close(raw) }
	if err := e.watch(); err != nil {
		C.xfer_engine_join(raw, C.XFER_NONE)
		return nil, err
	}
	go e.take()
	return e, nil
}

// watch hands a duplicate of the descriptor to Go's poller; the library closes its own.
func (e *Engine) watch() error {
	var fd C.int32_t
	if err := failed(C.xfer_engine_fd(e.raw, &fd), nil); err != nil {
		return err
	}
	duplicate, err := syscall.Dup(int(fd))
	if err != nil {
		return err
	}
	syscall.CloseOnExec(duplicate)
	if err := syscall.SetNonblock(duplicate, true); err != nil {
		return err
	}
	e.file = os.NewFile(uintptr(duplicate), "xfer")
	return nil
}

// take is the goroutine that takes events, whenever the descriptor is readable, until the engine's CLOSED.
func (e *Engine) take() {
	defer close(e.ended)
	connection, err := e.file.SyscallConn()
	if err != nil {
		panic(err)
	}
	var events [burst]C.xfer_event_t
	err = connection.Read(func(uintptr) bool {
		for count := C.uint32_t(burst); count == burst; {
			status := C.xfer_engine_poll(e.raw, &events[0], C.uint32_t(unsafe.Sizeof(events[0])), burst, 0, &count)
			if err := failed(status, nil); err != nil {
				panic(err)
			}
			for i := range events[:count] {
				e.deliver(&events[i])
			}
		}
		return e.over // or once more when it is readable
	})
	if err != nil {
		panic(err)
	}
}

// deliver gives one event to whoever waits for it.
func (e *Engine) deliver(event *C.xfer_event_t) {
	word, peer := uint64(event.user), uint64(event.user)
	switch event.kind {
	case C.XFER_EVENT_PEER:
		e.newEndpoint(event.ep, word)
	case C.XFER_EVENT_RECV:
		peer = uint64(event.index)
	}
	e.over = e.over || event.kind == C.XFER_EVENT_CLOSED && word == e.word
	e.table.Lock()
	ep, _ := e.handles[peer].(*Endpoint)
	var waiter chan outcome
	switch event.kind {
	case C.XFER_EVENT_PUT, C.XFER_EVENT_GET, C.XFER_EVENT_BATCH, C.XFER_EVENT_SEND, C.XFER_EVENT_RECV, C.XFER_EVENT_LOOKUP,
		C.XFER_EVENT_CONNECT, C.XFER_EVENT_NOTIFIED, C.XFER_EVENT_ATOMIC, C.XFER_EVENT_FLUSH, C.XFER_EVENT_CLOSED:
		waiter = e.waiters[word]
		delete(e.waiters, word)
		delete(e.handles, word)
	}
	e.table.Unlock()
	if waiter != nil {
		waiter <- outcome{event.kind, event.flags, event.origin, event.status, event.native_code,
			uint64(event.bytes), uint64(event.tag), uint64(event.index), bytesOf(event), ep}
		return
	}
	switch event.kind {
	case C.XFER_EVENT_PEER, C.XFER_EVENT_PEER_UP, C.XFER_EVENT_PEER_DOWN, C.XFER_EVENT_REGION_GONE, C.XFER_EVENT_NOTIFY,
		C.XFER_EVENT_ROOM:
		if e.onNotice != nil {
			e.onNotice(Notice{C.GoString(C.xfer_event_name(event.kind)), Status(event.status), uint32(event.flags), ep,
				uint64(event.tag), bytesOf(event)})
		}
	}
}

// expect is a new word, and where its event will come.
func (e *Engine) expect() (uint64, chan outcome) {
	e.table.Lock()
	defer e.table.Unlock()
	e.last++
	e.waiters[e.last] = make(chan outcome, 1)
	return e.last, e.waiters[e.last]
}

func (e *Engine) forget(word uint64) {
	e.table.Lock()
	defer e.table.Unlock()
	delete(e.waiters, word)
}

// do begins an operation of that handle, and waits for its event. A context that ends asks for an early end.
func (e *Engine) do(ctx context.Context, h *handle, begin func(C.uint64_t, *C.xfer_op_options_t) C.xfer_status_t) (outcome, error) {
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	var options C.xfer_op_options_t
	options.size = C.uint32_t(unsafe.Sizeof(options))
	canceled := ctx.Done()
	if deadline, ok := ctx.Deadline(); ok {
		options.timeout_ms = milliseconds(deadline)
	}
	word, waiter := e.expect()
	if err := failed(h.use(func() C.xfer_status_t { return begin(C.uint64_t(word), &options) }), nil); err != nil {
		e.forget(word)
		return outcome{}, err
	}
	for {
		select {
		case end := <-waiter:
			return end, end.failure(ctx)
		case <-canceled:
			canceled = nil
			if ctx.Err() == context.DeadlineExceeded {
				break // the operation has the same deadline
			}
			e.use(func() C.xfer_status_t { return C.xfer_cancel(e.raw, nil, C.uint64_t(word), C.UINT64_MAX) })
		}
	}
}

// milliseconds is the time from now, at least one.
func milliseconds(deadline time.Time) C.uint32_t {
	left := time.Until(deadline).Milliseconds() + 1
	if left < 1 {
		left = 1
	}
	if left >= C.XFER_NONE {
		return C.XFER_NONE
	}
	return C.uint32_t(left)
}

// Close ends all that is under way, regions, endpoints and the engine.
func (e *Engine) Close() error {
	e.table.Lock()
	var open []closer
	for _, h := range e.handles {
		open = append(open, h)
	}
	e.table.Unlock()
	for _, h := range open {
		if err := h.start(); err != nil {
			return err
		}
	}
	err := e.handle.Close()
	<-e.ended
	e.joined.Do(func() {
		C.xfer_engine_join(e.raw, C.XFER_NONE)
		e.file.Close()
	})
	return err
}

// Listen accepts peers at an address, and returns the one that they can dial.
func (e *Engine) Listen(uri string) (string, error) {
	var detail C.xfer_error_t
	var bound [256]C.char
	text := C.CString(uri)
	defer C.free(unsafe.Pointer(text))
	err := failed(e.use(func() C.xfer_status_t {
		return C.xfer_engine_listen(e.raw, text, nil, &bound[0], C.uint64_t(len(bound)), &detail)
	}), &detail)
	return C.GoString(&bound[0]), err
}

// Region is memory that peers may use.
type Region struct {
	handle
	raw    *C.xfer_region_t
	memory runtime.Pinner
}

// Lend opens a region. Its memory is pinned until Close returns.
func (e *Engine) Lend(memory []byte, name string, access uint32, blob []byte) (*Region, error) {
	r := &Region{}
	r.memory.Pin(unsafe.SliceData(memory))
	var shown runtime.Pinner
	defer shown.Unpin()
	options := C.xfer_region_options_t{access: C.uint32_t(access), blob_length: C.uint64_t(len(blob))}
	options.size = C.uint32_t(unsafe.Sizeof(options))
	if len(blob) > 0 {
		shown.Pin(&blob[0])
		options.blob = start(blob)
	}
	if name != "" {
		options.name = C.CString(name)
		defer C.free(unsafe.Pointer(options.name))
	}
	var detail C.xfer_error_t
	r.word, r.gone = e.expect()
	options.user = C.uint64_t(r.word)
	err := failed(e.use(func() C.xfer_status_t {
		return C.xfer_region_open(e.raw, &options, start(memory), C.uint64_t(len(memory)), &r.raw, &detail)
	}), &detail)
	if err != nil {
		e.forget(r.word)
		r.memory.Unpin()
		return nil, err
	}
	raw := r.raw
	r.end = func() C.xfer_status_t { return C.xfer_region_close(raw) }
	e.hold(r.word, r)
	return r, nil
}

// Close takes the memory back.
func (r *Region) Close() error {
	err := r.handle.Close()
	r.memory.Unpin()
	return err
}

func (e *Engine) hold(word uint64, h closer) {
	e.table.Lock()
	defer e.table.Unlock()
	e.handles[word] = h
}

// Message is what was received.
type Message struct {
	Length uint64
	Tag    uint64
	Peer   *Endpoint // where to answer; nil if it is gone
	Data   []byte    // of Take
}

// Recv receives a message into memory. from may be nil: from any peer.
func (e *Engine) Recv(ctx context.Context, memory []byte, tag, mask uint64, from *Endpoint) (Message, error) {
	return e.recv(ctx, memory, uint64(len(memory)), tag, mask, from, 0)
}

// Take receives a message of at most that many bytes, whose length need not be known.
func (e *Engine) Take(ctx context.Context, most, tag, mask uint64, from *Endpoint) (Message, error) {
	return e.recv(ctx, nil, most, tag, mask, from, C.XFER_FLAG_TAKE)
}

func (e *Engine) recv(ctx context.Context, memory []byte, most, tag, mask uint64, from *Endpoint, flags C.uint32_t) (Message, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pin(&pinner, memory)
	var source *C.xfer_ep_t
	user := &e.handle
	if from != nil {
		source, user = from.raw, &from.handle
	}
	end, err := e.do(ctx, user, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		options.flags = flags
		return C.xfer_recv(e.raw, source, start(memory), C.uint64_t(most), C.uint64_t(tag), C.uint64_t(mask), word, options)
	})
	message := Message{Length: end.bytes, Tag: end.tag, Peer: end.ep}
	if sender := int(unsafe.Sizeof(C.xfer_id_t{})); len(end.data) > sender {
		message.Data = end.data[sender:]
	}
	return message, err
}

func pin(pinner *runtime.Pinner, memory []byte) {
	if len(memory) > 0 {
		pinner.Pin(&memory[0])
	}
}
