// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
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

// record is an object that has memory beside pointers, which C does not see.
type record struct {
	next   *record
	memory [64]byte
	name   string
	pages  [2]int32
}

// newRecord is one on the heap, which points to another that is not pinned.
func newRecord() *record {
	return &record{next: &record{}, name: strings.Repeat("n", 40), pages: [2]int32{0, 1}}
}

// Memory may lie in an object that has pointers as well: only its bytes are passed.
func TestMemoryBesidePointers(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		from, to := newRecord(), newRecord()
		data, back, none := from.memory[:], to.memory[:], newRecord().memory[:0]
		copy(data, bytes.Repeat([]byte{3}, len(data)))
		ctx := c.patient()
		lent := must(c.owner.Lend(newRecord().memory[:], RegionOptions{Access: Read | Write}))
		ref := must(lent.Ref())
		c.ok(c.ep.Put(ctx, data, ref, 0))
		c.ok(c.ep.Put(ctx, none, ref, 0))
		c.ok(c.ep.Put(ctx, data, ref, 0, Quiet))
		c.ok(must(c.ep.BeginPut(ctx, data, ref, 0)).Wait())
		c.ok(c.ep.Flush(ctx))
		c.ok(c.ep.Get(ctx, back, ref, 0))
		c.true(bytes.Equal(data, back))
		clear(back)
		c.ok(must(c.ep.BeginGet(ctx, back, ref, 0)).Wait())
		c.true(bytes.Equal(data, back))

		c.ok(c.ep.Send(ctx, data, 1))
		c.ok(must(c.ep.BeginSend(ctx, data, 1)).Wait())
		for range 2 {
			clear(back)
			must(c.owner.Recv(ctx, nil, back, 1, Exact))
			c.true(bytes.Equal(data, back))
		}
		for _, sent := range [][]byte{data, none} {
			c.ok(c.ep.Notify(ctx, sent, 5))
			c.true(bytes.Equal(told[*Notification](p, c.ownerEvents).Data, sent))
		}
	})
}

func TestBatchMemoryBesidePointers(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		data, back, none := newRecord().memory[:], newRecord().memory[:], newRecord().memory[:0]
		copy(data, bytes.Repeat([]byte{3}, len(data)))
		b := must(c.ep.Batch())
		c.ok(b.Put(data, c.ref, 0))
		c.ok(b.Put(none, c.ref, 0))
		c.ok(b.AddSpans(PutEntries, c.ref, []Span{{data, 64}, {none, 0}}))
		c.ok(b.AddStrided(PutEntries, Strided{Local: data, LocalStride: 32, Remote: c.ref, Offset: 128, RemoteStride: 32,
			Length: 32, Count: 2}))
		c.ok(b.AddStrided(PutEntries, Strided{Local: none, Remote: c.ref}))
		table := newRecord().pages[:]
		c.ok(AddPages(b, PutEntries, PageShape{Length: 32}, []PageBase{{data, c.ref, 192}}, table, table))
		for _, sent := range [][]byte{data, none, nil} {
			c.ok(b.Submit(c.patient(), SubmitOptions{Notify: &Note{6, sent}}))
			c.true(bytes.Equal(told[*Notification](p, c.ownerEvents).Data, sent))
		}
		c.true(bytes.Count(c.lent()[:256], []byte{3}) == 256)
		c.ok(b.Reset())
		c.ok(b.Get(back, c.ref, 0))
		c.ok(b.Submit(c.patient(), SubmitOptions{}))
		c.true(bytes.Equal(data, back))
	})
}
