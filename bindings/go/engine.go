// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdlib.h>
#include <xfer/text.h>
*/
import "C"

import (
	"context"
	"os"
	"runtime"
	"sync"
	"unsafe"
)

// Engine is one member: an identity, what it lends, and its peers. It is closed by Close, and should be kept for as long
// as anything of it is used.
type Engine struct{ core *core }

// core is the engine without the value that the user has, so that its goroutine does not keep that one.
type core struct {
	handle
	raw      *C.xfer_engine_t
	name     uint64   // the word of its CLOSED event
	file     *os.File // Go's own poller watches the descriptor
	events   chan<- Event
	ownPeers bool
	user     reference[Engine]
	closing  chan struct{} // closed when events that find no room are passed over
	join     sync.Once

	table     sync.Mutex
	last      uint32
	waiters   map[uint64]*pending
	handles   map[uint64]*handle // what is closed with the engine
	endpoints map[uint64]*endpoint
}

// Open opens an engine. It neither listens nor connects yet.
func Open(options Options) (*Engine, error) {
	if err := matching(Version(), HeaderVersion); err != nil {
		return nil, err
	}
	given, free, err := options.raw()
	defer free()
	if err != nil {
		return nil, err
	}
	e := &core{events: options.Events, ownPeers: given.flags&C.XFER_ENGINE_OWN_PEERS != 0, closing: make(chan struct{}),
		waiters: map[uint64]*pending{}, handles: map[uint64]*handle{}, endpoints: map[uint64]*endpoint{}}
	e.gone = make(chan struct{})
	e.name = e.word(0)
	given.user = C.uint64_t(e.name)
	var detail C.xfer_error_t
	var raw *C.xfer_engine_t
	if err := failed(C.xfer_engine_open(&given, &raw, &detail), &detail); err != nil {
		return nil, err
	}
	e.raw = raw
	e.end = func() C.xfer_status_t {
		close(e.closing)
		return C.xfer_engine_close(raw)
	}
	if err := e.watch(); err != nil {
		C.xfer_engine_join(raw, C.XFER_NONE)
		return nil, err
	}
	engine := &Engine{e}
	e.user = refer(engine)
	runtime.SetFinalizer(engine, func(*Engine) { go e.close() })
	go e.drain()
	return engine, nil
}

// Close ends all that is under way, closes what is open, and returns when all of its memory is quiet and its threads and
// goroutine have ended. The channel of Options.Events is closed by then.
func (e *Engine) Close() error {
	defer runtime.KeepAlive(e)
	return e.core.close()
}

func (e *core) close() error {
	err := e.handle.close()
	if err != nil {
		return err
	}
	e.join.Do(func() {
		e.endLent()
		C.xfer_engine_join(e.raw, C.XFER_NONE)
		e.file.Close()
		e.table.Lock()
		left := e.handles
		e.handles, e.endpoints = nil, nil // nothing is added any more: the handle is closed
		e.table.Unlock()
		for _, h := range left { // the handles that only have to be freed
			h.start()
			h.over()
		}
	})
	return nil
}

// endLent has the endpoints that are not the user's take no calls any more, and waits for those that they are in: the
// library frees them at the join.
func (e *core) endLent() {
	e.table.Lock()
	var all []*endpoint
	for _, ep := range e.endpoints {
		all = append(all, ep)
	}
	e.table.Unlock()
	for _, ep := range all {
		ep.mutex.Lock()
		ep.closed = ep.closed || !ep.owned
		ep.mutex.Unlock()
	}
}

// hold registers a handle whose CLOSED event has that word. It is called within use, so before the engine's end.
func (e *core) hold(word uint64, h *handle) {
	e.table.Lock()
	defer e.table.Unlock()
	e.handles[word] = h
}

// release is for handles without a CLOSED event.
func (e *core) release(word uint64, h *handle) {
	e.table.Lock()
	delete(e.handles, word)
	e.table.Unlock()
	h.over()
}

// newWord is for a handle.
func (e *core) newWord() uint64 {
	e.table.Lock()
	defer e.table.Unlock()
	return e.word(0)
}

// ListenOptions are those of one listener; zero means the default.
type ListenOptions struct {
	Insecure  bool   // allows listening beyond loopback without a key, here
	Mode      uint32 // permission bits of a UNIX socket's file; default 0600
	Advertise string // comma list of URIs that peers should dial; "{port}" stands for the port that was bound
	User      uint64 // comes back in Peer
}

// Listen accepts peers at an address such as "tcp://127.0.0.1:0", and returns one that peers can dial.
func (e *Engine) Listen(uri string, options ListenOptions) (string, error) {
	defer runtime.KeepAlive(e)
	given := C.xfer_listen_options_t{mode: C.uint32_t(options.Mode), user: C.uint64_t(options.User)}
	given.size = C.uint32_t(unsafe.Sizeof(given))
	if options.Insecure {
		given.flags = C.XFER_LISTEN_INSECURE
	}
	if options.Advertise != "" {
		text, err := cText(options.Advertise)
		if err != nil {
			return "", err
		}
		given.advertise = text
		defer C.free(unsafe.Pointer(given.advertise))
	}
	text, err := cText(uri)
	if err != nil {
		return "", err
	}
	defer C.free(unsafe.Pointer(text))
	var bound [256]C.char
	var detail C.xfer_error_t
	err = failed(e.core.use(func() C.xfer_status_t {
		return C.xfer_engine_listen(e.core.raw, text, &given, &bound[0], C.uint64_t(len(bound)), &detail)
	}), &detail)
	return C.GoString(&bound[0]), err
}

// Addresses are a comma list of where peers may dial this engine, for [Engine.Dial]; empty without a listener.
func (e *Engine) Addresses() (string, error) {
	return e.text(func(text *C.char, cap C.uint64_t, needed *C.uint64_t) C.xfer_status_t {
		return C.xfer_engine_addresses(e.core.raw, text, cap, needed)
	})
}

// Describe is the engine as JSON.
func (e *Engine) Describe() (string, error) {
	return e.text(func(text *C.char, cap C.uint64_t, needed *C.uint64_t) C.xfer_status_t {
		return C.xfer_engine_describe(e.core.raw, text, cap, needed)
	})
}

// text asks for a text whose length is not known, until it fits.
func (e *Engine) text(call func(text *C.char, cap C.uint64_t, needed *C.uint64_t) C.xfer_status_t) (string, error) {
	defer runtime.KeepAlive(e)
	for size := 4096; ; {
		text, needed := make([]C.char, size), C.uint64_t(0)
		status := e.core.use(func() C.xfer_status_t { return call(&text[0], C.uint64_t(size), &needed) })
		if status != C.XFER_ENOSPC {
			return C.GoString(&text[0]), failed(status, nil)
		}
		size = 2 * int(needed)
	}
}

// ID is the identity of this engine.
func (e *Engine) ID() (id ID, err error) {
	defer runtime.KeepAlive(e)
	return id, failed(e.core.use(func() C.xfer_status_t { return C.xfer_engine_id(e.core.raw, id.raw()) }), nil)
}

// Kinds are the kinds of memory that this engine moves: bit 1 << kind of each [MemoryKind].
func (e *Engine) Kinds() (uint64, error) {
	defer runtime.KeepAlive(e)
	var mask C.uint64_t
	err := failed(e.core.use(func() C.xfer_status_t { return C.xfer_engine_kinds(e.core.raw, &mask) }), nil)
	return uint64(mask), err
}

// Transports are those that this engine uses: bit 1 << transport of each [Transport].
func (e *Engine) Transports() (uint64, error) {
	defer runtime.KeepAlive(e)
	var mask C.uint64_t
	err := failed(e.core.use(func() C.xfer_status_t { return C.xfer_engine_transports(e.core.raw, &mask) }), nil)
	return uint64(mask), err
}

// Drain ends all work before the end of an engine, as for a rolling restart: from here on what would begin something is
// [ErrClosed], peers are told, and what is under way ends. Close is still to come. A context that ends gives up the
// wait alone; a second call is [ErrBusy].
func (e *Engine) Drain(ctx context.Context) error {
	defer runtime.KeepAlive(e)
	_, err := e.core.do(ctx, &e.core.handle, OpOption{}, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_engine_drain(e.core.raw, word, options)
	})
	return err
}

// CancelGroup asks for an early end of all operations of that [Group]. Each ends as it would by its context.
func (e *Engine) CancelGroup(number uint32) error {
	defer runtime.KeepAlive(e)
	if number == 0 || number > MaxGroup {
		return refused(ErrInval, "a group has a number from 1 to MaxGroup")
	}
	return e.core.cancel(nil, uint64(number)<<32, 0xFFFFFFFF<<32)
}
