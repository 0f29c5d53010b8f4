// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdlib.h>
#include <xfer/xfer.h>
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// Endpoint is a handle for one peer: one that was dialed, or that came. It stays until Close, also while the peer is
// away, and connects on first use.
type Endpoint struct {
	*endpoint
	engine *Engine
}

// endpoint is what is known of it without the value that the user has.
type endpoint struct {
	handle
	core  *core
	raw   *C.xfer_ep_t
	word  uint64
	owned bool // else it ends with its PEER_DOWN; guarded by handle.mutex

	users sync.Mutex // one value, so that pointers may be compared
	user  reference[Endpoint]

	quiets sync.Mutex // guards what follows, and the order of quiet operations and flushes
	pins   []*runtime.Pinner
	pinned bool // since its open it has had some
	idle   bool // it has ended: nothing of it is under way
}

// DialOptions are those of an endpoint; zero means the default.
type DialOptions struct {
	Peer ID // the identity expected (its incarnation is ignored); default: any
}

// Dial opens an endpoint for the engine at an address, or at each of a comma list. It does not connect: the first use
// does. With an identity it is a handle for that engine wherever it is, and uri may be empty.
func (e *Engine) Dial(uri string, options DialOptions) (*Endpoint, error) {
	defer runtime.KeepAlive(e)
	core := e.core
	ep := &endpoint{core: core, word: core.newWord(), owned: true}
	given := C.xfer_ep_options_t{user: C.uint64_t(ep.word)}
	given.size = C.uint32_t(unsafe.Sizeof(given))
	var pins runtime.Pinner
	defer pins.Unpin()
	if options.Peer != (ID{}) {
		pins.Pin(&options.Peer)
		given.peer = options.Peer.raw()
	}
	var text *C.char
	if uri != "" {
		var err error
		if text, err = cText(uri); err != nil {
			return nil, err
		}
		defer C.free(unsafe.Pointer(text))
	}
	var detail C.xfer_error_t
	err := failed(core.use(func() C.xfer_status_t {
		ep.hold()
		status := C.xfer_ep_open(core.raw, text, &given, &ep.raw, &detail)
		if status != C.XFER_OK {
			core.drop(ep.word)
		}
		return status
	}), &detail)
	if err != nil {
		return nil, err
	}
	return ep.shown(e), nil
}

// hold registers the endpoint before an event of it can come.
func (ep *endpoint) hold() {
	ep.gone = make(chan struct{})
	ep.end = func() C.xfer_status_t {
		if !ep.owned { // its end is the library's
			return C.XFER_ECLOSED
		}
		return C.xfer_ep_close(ep.raw)
	}
	ep.quiet = ep.unpin
	ep.core.table.Lock()
	defer ep.core.table.Unlock()
	ep.core.handles[ep.word] = &ep.handle
	ep.core.endpoints[ep.word] = ep
}

// drop forgets a handle that was not opened after all.
func (e *core) drop(word uint64) {
	e.table.Lock()
	defer e.table.Unlock()
	delete(e.handles, word)
	delete(e.endpoints, word)
}

// arrived is an endpoint for the handle of a PEER event, whose word no other handle nor operation has.
func (e *core) arrived(raw *C.xfer_ep_t, word uint64) *Endpoint {
	ep := &endpoint{core: e, raw: raw, word: word, owned: e.ownPeers}
	ep.hold()
	return ep.shown(e.user.value())
}

// shown is the value that the user has, or a new one if there is none any more.
func (ep *endpoint) shown(engine *Engine) *Endpoint {
	ep.users.Lock()
	defer ep.users.Unlock()
	if user := ep.user.value(); user != nil {
		return user
	}
	user := &Endpoint{ep, engine}
	ep.user = refer(user)
	return user
}

// find is the endpoint of an event, nil if it is closed.
func (e *core) find(word uint64) *Endpoint {
	e.table.Lock()
	ep := e.endpoints[word]
	e.table.Unlock()
	if ep == nil {
		return nil
	}
	return ep.shown(e.user.value())
}

// of is the endpoint with that handle, for events that have no word of it.
func (e *core) of(raw *C.xfer_ep_t) *Endpoint {
	e.table.Lock()
	defer e.table.Unlock()
	for _, ep := range e.endpoints {
		if ep.raw == raw {
			return ep.shown(e.user.value())
		}
	}
	return nil
}

// down is the endpoint of a PEER_DOWN event; if it is not owned, no call may use its handle after this poll.
func (e *core) down(word uint64) *Endpoint {
	e.table.Lock()
	ep := e.endpoints[word]
	e.table.Unlock()
	if ep == nil {
		return nil
	}
	user := ep.shown(e.user.value())
	ep.mutex.Lock()
	over := !ep.owned
	ep.closed = ep.closed || over
	ep.mutex.Unlock()
	if over {
		ep.release()
	}
	return user
}

// release ends an endpoint that is not owned, at its PEER_DOWN. The library cancels what is under way by then, and tells no
// end of that: where quiet operations may be among it, the handle is kept, for the CLOSED event, and closed.
func (ep *endpoint) release() {
	if ep.settled() {
		ep.core.drop(ep.word)
		ep.over()
		return
	}
	if C.xfer_ep_keep(ep.raw, C.uint64_t(ep.word)) == C.XFER_OK {
		C.xfer_ep_close(ep.raw)
		return
	}
	ep.core.table.Lock()
	defer ep.core.table.Unlock()
	delete(ep.core.endpoints, ep.word) // its memory stays pinned until the end of the engine, which has its handle
}

// settled: no quiet operation of the endpoint, which takes no calls any more, is under way.
func (ep *endpoint) settled() bool {
	ep.quiets.Lock()
	pinned := ep.pinned
	ep.quiets.Unlock()
	if !pinned {
		return true
	}
	var idle C.uint32_t
	word, _ := ep.core.expect(0)
	status := C.xfer_ep_flush(ep.raw, &idle, C.uint64_t(word), nil)
	if status != C.XFER_OK || idle == 1 {
		ep.core.forget(word) // else an event comes, for nobody
	}
	return status == C.XFER_OK && idle == 1
}

// AddAddress tells where else the peer is, such as after its restart.
func (ep *Endpoint) AddAddress(uri string) error {
	defer runtime.KeepAlive(ep)
	text, err := cText(uri)
	if err != nil {
		return err
	}
	defer C.free(unsafe.Pointer(text))
	var detail C.xfer_error_t
	return failed(ep.use(func() C.xfer_status_t { return C.xfer_ep_add_address(ep.raw, text, &detail) }), &detail)
}

// Keep makes the endpoint of a [Peer] the caller's where it is not: with the option own_peers off.
func (ep *Endpoint) Keep() error {
	defer runtime.KeepAlive(ep)
	ep.mutex.Lock()
	defer ep.mutex.Unlock()
	if ep.closed {
		return failed(C.XFER_ECLOSED, nil)
	}
	err := failed(C.xfer_ep_keep(ep.raw, C.uint64_t(ep.word)), nil)
	ep.owned = ep.owned || err == nil
	return err
}

// Admit lets the peer of a [Peer] in, or turns it away: zero admits, [ErrAccess] refuses, [ErrOverload] has it try again
// later. The option ask makes peers wait for it.
func (ep *Endpoint) Admit(verdict Status) error {
	defer runtime.KeepAlive(ep)
	return failed(ep.use(func() C.xfer_status_t { return C.xfer_ep_admit(ep.raw, C.xfer_status_t(verdict)) }), nil)
}

// EndpointState says whether there is a connection.
type EndpointState uint32

// The states of an endpoint.
const (
	Idle       EndpointState = C.XFER_EP_IDLE
	Connecting EndpointState = C.XFER_EP_CONNECTING
	Ready      EndpointState = C.XFER_EP_READY
	Closed     EndpointState = C.XFER_EP_CLOSED
)

// PeerInfo is what is known of a peer.
type PeerInfo struct {
	ID      ID // all zero until the first connection
	State   EndpointState
	Address string // where we dial, or where it came from
	Blob    []byte
}

// State says whether there is a connection.
func (ep *Endpoint) State() (EndpointState, error) {
	defer runtime.KeepAlive(ep)
	var state C.uint32_t
	err := failed(ep.use(func() C.xfer_status_t { return C.xfer_ep_state(ep.raw, &state) }), nil)
	return EndpointState(state), err
}

// Peer is what is known of the peer.
func (ep *Endpoint) Peer() (PeerInfo, error) {
	defer runtime.KeepAlive(ep)
	var info C.xfer_peer_info_t
	err := failed(ep.use(func() C.xfer_status_t {
		return C.xfer_ep_peer(ep.raw, &info, C.uint32_t(unsafe.Sizeof(info)))
	}), nil)
	return PeerInfo{*(*ID)(unsafe.Pointer(&info.id)), EndpointState(info.state), C.GoString(&info.address[0]),
		C.GoBytes(unsafe.Pointer(&info.blob[0]), C.int(info.blob_length))}, err
}

// Connect connects now, so that the first operation need not. [ErrUnreachable] if nobody listens there, [ErrAuth] without
// the right key, [ErrAccess] if the peer refuses us, [ErrIdentity] if another engine answers.
func (ep *Endpoint) Connect(ctx context.Context, options ...OpOption) error {
	_, err := ep.do(ctx, options, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_ep_connect(ep.raw, word, options)
	})
	return err
}

// Lookup asks for the ref and the blob of the peer's region of that name. [ErrNotFound] if there is none; with [Wait] it
// waits for one.
func (ep *Endpoint) Lookup(ctx context.Context, name string, options ...OpOption) (ref Ref, blob []byte, err error) {
	text, err := cText(name)
	if err != nil {
		return ref, nil, err
	}
	defer C.free(unsafe.Pointer(text))
	end, err := ep.do(ctx, options, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_ep_lookup(ep.raw, text, word, options, nil)
	})
	if err == nil {
		blob = end.data[copy(ref[:], end.data):]
	}
	return ref, blob, err
}

// Close ends the handle, and its operations with [ErrCanceled]. The connection stays while another handle uses it. An
// endpoint of a peer that came, which is not the caller's, only takes no calls any more.
func (ep *Endpoint) Close() error {
	defer runtime.KeepAlive(ep)
	err := ep.start()
	if err != nil {
		return err
	}
	if ep.owned {
		<-ep.gone
	}
	return nil
}

// do begins an operation with the endpoint, and waits for its event.
func (ep *Endpoint) do(ctx context.Context, options []OpOption, start begin) (event, error) {
	defer runtime.KeepAlive(ep)
	return ep.core.do(ctx, &ep.handle, joined(options), start)
}
