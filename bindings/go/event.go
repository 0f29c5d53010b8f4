// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/text.h>
import "C"

import "time"

// Event is what an engine tells that ends no operation which somebody waits for: a *[Peer], *[PeerUp], *[PeerDown],
// *[RegionGone], *[Notification], *[Room], *[Stalled], *[QuietFailed], or an *[Unknown]. Pass over those that you do not
// know.
type Event interface{ event() }

// Peer tells that a peer has connected to us. The endpoint is the caller's to close; see Options.Events.
type Peer struct {
	Endpoint *Endpoint
	Listener uint64 // ListenOptions.User of where it was accepted
}

// PeerUp tells that an endpoint has a connection.
type PeerUp struct {
	Endpoint    *Endpoint
	ID          ID
	Blob        []byte
	Reconnected bool // the same incarnation was connected before
	Restarted   bool // another incarnation, or another engine: old refs are stale
}

// PeerDown tells that a connection ended. Nothing of it lands any more.
type PeerDown struct {
	Endpoint *Endpoint
	Err      *Error // why; nil if the peer had no reason but to end
}

// RegionGone tells that a region that we had looked up was closed.
type RegionGone struct {
	Endpoint *Endpoint
	Ref      Ref
}

// Notification is a peer's: of [Endpoint.Notify], or behind a batch.
type Notification struct {
	Endpoint *Endpoint // nil if it is gone
	Key      uint64
	Data     []byte
	Err      *Error // not nil: the batch that should have raised it failed, and nothing of it lands any more
}

// Room tells that an endpoint that answered [ErrAgain] takes work again.
type Room struct{ Endpoint *Endpoint }

// Stalled tells that no copy from or to a device has ended for a second, or for stall_ms where that is less, and then, without
// an error, that copies go on again. Each I/O thread tells of its own copies.
type Stalled struct {
	Device uint32
	Thread uint32        // the I/O thread, from 0
	For    time.Duration // since a copy has ended
	Err    *Error        // nil: copies go on
}

// QuietFailed tells that a [Quiet] operation failed.
type QuietFailed struct {
	Endpoint *Endpoint
	Err      *Error
}

// Unknown is an event of a library that is later than this package.
type Unknown struct {
	Kind   uint32
	Status Status
}

func (*Peer) event()         {}
func (*PeerUp) event()       {}
func (*PeerDown) event()     {}
func (*RegionGone) event()   {}
func (*Notification) event() {}
func (*Room) event()         {}
func (*Stalled) event()      {}
func (*QuietFailed) event()  {}
func (*Unknown) event()      {}

// shown is an event as its type has it.
func (e *core) shown(what event) Event {
	switch what.kind {
	case C.XFER_EVENT_PEER_UP:
		up := &PeerUp{Endpoint: e.find(what.user), Reconnected: what.flags&C.XFER_RECONNECTED != 0,
			Restarted: what.flags&C.XFER_RESTARTED != 0}
		up.ID, up.Blob = idAndRest(what.data)
		return up
	case C.XFER_EVENT_PEER_DOWN:
		return &PeerDown{e.down(what.user), what.failure()}
	case C.XFER_EVENT_REGION_GONE:
		gone := &RegionGone{Endpoint: e.find(what.user)}
		copy(gone.Ref[:], what.data)
		return gone
	case C.XFER_EVENT_NOTIFY:
		return &Notification{e.find(what.user), what.tag, what.data, what.failure()}
	case C.XFER_EVENT_ROOM:
		return &Room{e.find(what.user)}
	case C.XFER_EVENT_STALLED:
		return &Stalled{uint32(what.tag), uint32(what.index), time.Duration(what.bytes), what.failure()}
	case C.XFER_EVENT_PUT, C.XFER_EVENT_GET, C.XFER_EVENT_ATOMIC, C.XFER_EVENT_SEND, C.XFER_EVENT_NOTIFIED:
		return &QuietFailed{e.of(what.ep), what.failure()}
	}
	return &Unknown{what.kind, Status(what.status)}
}
