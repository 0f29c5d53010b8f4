// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"
)

// What C would read otherwise than it was written is refused.
func TestTextsWithNUL(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		_, dialed := c.engine.Dial(c.uri+"\x00", DialOptions{})
		_, listened := c.engine.Listen("tcp://127.0.0.1:0\x00", ListenOptions{})
		_, advertised := c.engine.Listen("tcp://127.0.0.1:0", ListenOptions{Advertise: "tcp://a:1\x00"})
		_, lent := c.owner.Lend(make([]byte, 8), RegionOptions{Name: "pool\x00x"})
		_, _, looked := c.ep.Lookup(c.patient(), "pool\x00x")
		_, ref := ParseRef(c.ref.String() + "\x00")
		_, id := ParseID(must(c.owner.ID()).String() + "\x00")
		for _, err := range []error{dialed, listened, advertised, lent, looked, ref, id, c.ep.AddAddress(c.uri + "\x00")} {
			p.fails(err, ErrInval)
		}
	})
}

// A time beyond all counting is a long one.
func TestFarDeadline(t *testing.T) {
	if milliseconds(math.MaxInt64) != math.MaxUint32 || milliseconds(time.Millisecond+1) != 2 || milliseconds(-1) != 1 ||
		milliseconds(0) != 1 || milliseconds(time.Millisecond) != 1 {
		t.Error(milliseconds(math.MaxInt64), milliseconds(time.Millisecond+1), milliseconds(0))
	}
}

func TestReceiveFromAnotherEngine(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		other, _ := p.open()
		_, received := other.Recv(c.patient(), c.ep, make([]byte, 8), 0, Any)
		_, taken := other.Take(c.patient(), c.ep, 8, 0, Any)
		_, peeked := other.Peek(c.ep, 0, Any)
		for _, err := range []error{received, taken, peeked} {
			p.fails(err, ErrInval)
		}
	})
}

// Calls on the endpoint of a peer that came are over when its engine's end is.
func TestLentEndpointBesideClose(t *testing.T) {
	onPaths(t, func(p *place) {
		if p.path == "loopback" {
			return // nobody comes
		}
		e, err := Open(Options{Set: map[string]string{"transports": p.transports()}}) // no events: peers' endpoints are lent
		p.ok(err)
		uri := must(e.Listen("tcp://127.0.0.1:0", ListenOptions{}))
		client, _ := p.open()
		p.ok(must(client.Dial(uri, DialOptions{})).Send(p.patient(), []byte("hello"), 1))
		message := must(e.Take(context.Background(), nil, 8, 0, Any))
		ended := begun(func() error {
			for {
				if _, err := message.Peer.State(); err != nil {
					return err
				}
			}
		})
		time.Sleep(time.Millisecond)
		p.ok(e.Close())
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}
