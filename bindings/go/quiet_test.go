// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"testing"
)

// pinned is how many quiet operations of an endpoint have their memory pinned.
func pinned(ep *Endpoint) int {
	ep.quiets.Lock()
	defer ep.quiets.Unlock()
	return len(ep.pins)
}

// known says whether the engine still has the endpoint, and takes calls of it.
func known(ep *Endpoint) bool {
	ep.mutex.RLock()
	defer ep.mutex.RUnlock()
	return !ep.closed
}

// lender has an endpoint of a peer that came, which is not the caller's, and events that it tells one by one.
func lender(p *place) (events chan Event, came *Endpoint, peer *Engine) {
	events = make(chan Event)
	owner := must(Open(Options{Set: map[string]string{"transports": p.transports(), "own_peers": "no"}, Events: events}))
	p.Cleanup(func() { p.ok(owner.Close()) })
	peer = must(Open(Options{Set: map[string]string{"transports": p.transports()}}))
	p.Cleanup(func() { p.ok(peer.Close()) })
	p.ok(must(peer.Dial(must(owner.Listen("tcp://127.0.0.1:0", ListenOptions{})), DialOptions{})).Connect(p.patient()))
	return events, told[*Peer](p, events).Endpoint, peer
}

// What a quiet put of an endpoint that ends with its PeerDown reads stays pinned until the put has ended, which the library
// begins only behind that event.
func TestQuietPastPeerDown(t *testing.T) {
	onPaths(t, func(p *place) {
		events, came, peer := lender(p)
		ref := must(must(peer.Lend(make([]byte, 64), RegionOptions{Access: Write})).Ref())
		p.ok(peer.Close()) // of which PeerDown is not told yet: nobody has taken PeerUp
		p.eventually("it has left", func() bool { return must(came.engine.Stats()).ConnectionEnds == 1 })
		p.ok(came.Put(p.patient(), make([]byte, 64), ref, 0, Quiet))
		told[*PeerUp](p, events)
		p.eventually("its end", func() bool { return !known(came) })
		p.true(pinned(came) == 1, "the put waits in the library, while PeerDown is told")
		p.true(told[*PeerDown](p, events).Endpoint == came)
		failed := told[*QuietFailed](p, events)
		p.true(failed.Endpoint == came && failed.Err.Status == ErrCanceled, failed.Err)
		p.eventually("its memory is given back", func() bool { return pinned(came) == 0 })
		p.fails(came.Flush(p.patient()), ErrClosed)
	})
}

// One whose quiet operations have all ended gives their memory back with its PeerDown, flushed or not.
func TestQuietBeforePeerDown(t *testing.T) {
	onPaths(t, func(p *place) {
		events, came, peer := lender(p)
		region := must(peer.Lend(make([]byte, 4), RegionOptions{Access: Write}))
		told[*PeerUp](p, events)
		p.ok(came.Put(p.patient(), []byte("good"), must(region.Ref()), 0, Quiet))
		p.eventually("it has ended", func() bool { return must(came.Stats()).Put.Completed == 1 })
		p.true(pinned(came) == 1 && string(region.Bytes()) == "good")
		p.ok(peer.Close())
		told[*PeerDown](p, events)
		p.true(pinned(came) == 0)
	})
}
