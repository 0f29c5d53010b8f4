// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"go/build"
	"io"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func submitAfterClose(p *place) {
	for order := range 3 {
		c := p.pair()
		b := must(c.ep.Batch())
		counter := must(c.engine.Count(9, 9, 0))
		grant := must(c.region.Grant(GrantOptions{Access: Read, Length: 8}))
		closes := []func() error{b.Close, counter.Close, c.region.Close, c.ep.Close, c.engine.Close, c.owner.Close}
		switch order {
		case 1: // the other way round
			for i, j := 0, len(closes)-1; i < j; i, j = i+1, j-1 {
				closes[i], closes[j] = closes[j], closes[i]
			}
		case 2:
			rand.Shuffle(len(closes), func(i, j int) { closes[i], closes[j] = closes[j], closes[i] })
		}
		for _, close := range closes {
			c.ok(close())
			c.ok(close())
		}
		ctx := c.patient()
		_, _, lookup := c.ep.Lookup(ctx, "pool")
		_, receive := c.engine.Recv(ctx, nil, make([]byte, 8), 1, Exact)
		_, add := c.ep.Add(ctx, c.ref, 0, 1)
		_, listen := c.engine.Listen("tcp://127.0.0.1:0", ListenOptions{})
		_, dial := c.engine.Dial(c.uri, DialOptions{})
		_, lend := c.engine.Lend(make([]byte, 8), RegionOptions{})
		_, ref := c.region.Ref()
		_, again := c.region.Grant(GrantOptions{Access: Read, Length: 8})
		_, batch := c.ep.Batch()
		_, count := c.engine.Count(9, 9, 0)
		_, wait := counter.Wait(ctx)
		for i, err := range []error{lookup, receive, add, listen, dial, lend, ref, again, batch, count,
			c.ep.Put(ctx, []byte("late"), c.ref, 0), c.ep.Put(ctx, []byte("late"), c.ref, 0, Quiet), c.ep.Flush(ctx),
			c.ep.Connect(ctx), c.engine.Drain(ctx), b.Put([]byte("late"), c.ref, 0), b.Submit(ctx, SubmitOptions{}),
			grant.Revoke(), c.ep.Keep(), c.ep.Admit(0)} {
			if err == nil {
				c.Fatal("call ", i, " was taken")
			}
			c.fails(err, ErrClosed)
		}
		// The engine's close may have been the first that it heard of.
		c.true(errors.Is(wait, ErrClosed) || errors.Is(wait, ErrCanceled), wait)
		<-grant.Ended()
		c.fails(grant.Err(), ErrClosed)
	}
}

func closeWithInflight(p *place) {
	c := p.proxied()
	begin, free := c.stuck()
	defer free()
	b := must(c.ep.Batch())
	c.ok(b.Put(make([]byte, 8), c.ref, 0))
	ctx := context.Background()
	var all []<-chan error
	for range 4 {
		all = append(all, begun(func() error { return begin(ctx) }))
	}
	c.submitted(4)
	all = append(all, begun(func() error {
		_, err := c.engine.Take(ctx, nil, 8, 97, Exact)
		return err
	}), begun(func() error {
		_, _, err := c.ep.Lookup(ctx, "never", Wait)
		return err
	}), begun(func() error { return b.Submit(ctx, SubmitOptions{Ordered: true}) }))
	c.eventually("all are there", func() bool { return waiting(c.engine) == len(all) })
	closed := begun(c.engine.Close)
	for _, ended := range all {
		c.fails(soon(p, ended), ErrCanceled)
	}
	c.ok(soon(p, closed))
	c.true(waiting(c.engine) == 0)
	for range c.events { // until it is closed: all has been told
	}
	c.ok(b.Close())
}

// forgotten leaves an engine with all that it can have, and nothing that refers to it but its own goroutine.
//
//go:noinline
func forgotten(c *pair) {
	e := must(Open(Options{Set: map[string]string{"transports": c.transports()}}))
	must(e.Lend(make([]byte, 1<<20), RegionOptions{Access: Read}))
	must(e.Alloc(1<<20, RegionOptions{}))
	must(e.Count(1, 5, 0))
	ep := must(e.Dial(c.uri, DialOptions{}))
	b := must(ep.Batch())
	c.ok(b.Put(make([]byte, 1<<20), c.ref, 0))
	c.ok(b.Submit(c.patient(), SubmitOptions{}))
	c.ok(ep.Put(c.patient(), make([]byte, 1<<20), c.ref, 0, Quiet))
}

// leaveOpen is the same at the end of a program.
func leaveOpen() {
	owner := must(Open(Options{}))
	must(owner.Lend(make([]byte, 1<<20), RegionOptions{Name: "pool", Access: Write}))
	uri := must(owner.Listen("tcp://127.0.0.1:0", ListenOptions{}))
	e := must(Open(Options{}))
	ep := must(e.Dial(uri, DialOptions{}))
	ref, _, err := ep.Lookup(context.Background(), "pool")
	must(0, err)
	go ep.Put(context.Background(), make([]byte, 1<<20), ref, 0)
	go e.Take(context.Background(), nil, 8, 1, Exact)
	must(0, ep.Put(context.Background(), make([]byte, 1<<20), ref, 0, Quiet))
}

func dropWithoutClose(p *place) {
	p.started("drop") // its exit status is checked when the test ends
	if !slices.Contains(build.Default.ReleaseTags, "go1.24") {
		return // it stays until the program ends
	}
	c := p.pair()
	c.back()
	for range 2 {
		forgotten(c)
	}
	for downs := 0; downs < 2; {
		runtime.GC()
		select {
		case event := <-c.ownerEvents:
			if _, is := event.(*PeerDown); is {
				downs++
			}
		case <-time.After(10 * time.Millisecond):
		case <-c.patient().Done():
			c.Fatal("the collector has closed none")
		}
	}
	c.ok(c.ep.Put(c.patient(), []byte("goes on"), c.ref, 0))
}

func regionGone(p *place) {
	c := p.pair()
	c.ok(c.region.Close())
	gone := told[*RegionGone](p, c.events)
	c.true(gone.Ref == c.ref && gone.Endpoint == c.ep, "another ref")
	c.fails(c.ep.Put(c.patient(), []byte("late"), c.ref, 0), ErrStale)
	must(c.owner.Lend(make([]byte, 64), RegionOptions{Name: "pool", Access: Write}))
	c.ok(c.ep.Put(c.patient(), []byte("new"), c.look("pool"), 0))
}

func peerKilled(p *place) {
	start := func() (kill func(), uri string) {
		peer, out := p.started(p.transports())
		said := bufio.NewReader(out)
		line := must(said.ReadString('\n'))
		return func() {
			p.ok(peer.Process.Signal(syscall.SIGKILL))
			must(io.Copy(io.Discard, said)) // on a busy machine it lives for a moment
		}, strings.TrimSpace(line)
	}
	kill, uri := start()
	e, events := p.open()
	c := &pair{place: p, engine: e, events: events, ep: must(e.Dial(uri, DialOptions{}))}
	c.ref = c.look("pool")
	if p.path == "tcp" {
		c.proxy = newProxy(p)
		ep := must(e.Dial(c.proxy.to(uri), DialOptions{}))
		c.ok(ep.Connect(c.patient()))
		c.ok(c.ep.Close())
		c.ep = ep
	}
	begin, _ := c.stuck()
	ended := begun(func() error { return begin(c.patient()) })
	c.submitted(1)
	kill()
	if c.proxy != nil {
		c.proxy.free()
	}
	c.true(!c.fails(soon(p, ended), ErrPeerLost).Fenced, "who is dead can have confirmed nothing")
	told[*PeerDown](p, c.events)
	_, again := start()
	c.ok(c.ep.AddAddress(again))
	c.fails(c.ep.Put(c.patient(), []byte("old"), c.ref, 0), ErrStale)
	c.ok(c.ep.Put(c.patient(), []byte("new"), c.look("pool"), 0))
}

func drainEnds(p *place) {
	c := p.proxied()
	begin, free := c.stuck()
	under := begun(func() error { return begin(c.patient()) })
	c.submitted(1)
	drained := begun(func() error { return c.engine.Drain(c.patient()) })
	c.eventually("it takes nothing new", func() bool {
		ep, err := c.engine.Dial(c.uri, DialOptions{})
		if err == nil {
			c.ok(ep.Close())
		}
		return err != nil
	})
	c.fails(c.ep.Put(c.patient(), []byte("new"), c.ref, 0), ErrClosed)
	c.fails(c.engine.Drain(c.patient()), ErrBusy)
	free()
	c.ok(soon(p, under))
	c.ok(soon(p, drained))
}

func admitAndRefuse(p *place) {
	owner, events := p.open("ask", "yes")
	must(owner.Lend(make([]byte, 64), RegionOptions{Name: "pool", Access: Write}))
	uri := must(owner.Listen("tcp://127.0.0.1:0", ListenOptions{User: 17}))
	ask := func() (<-chan error, *Peer) {
		e := must(Open(Options{Set: map[string]string{"transports": p.transports()}, Blob: []byte("worker\x007")}))
		p.Cleanup(func() { p.ok(e.Close()) })
		ep := must(e.Dial(uri, DialOptions{}))
		connected := begun(func() error { return ep.Connect(p.patient()) })
		asks := told[*Peer](p, events)
		info := must(asks.Endpoint.Peer())
		p.true(string(info.Blob) == "worker\x007" && info.ID == must(e.ID()) && asks.Listener == 17, info)
		return connected, asks
	}
	connected, asks := ask()
	p.ok(asks.Endpoint.Admit(0))
	p.ok(soon(p, connected))
	p.true(told[*PeerUp](p, events).Endpoint == asks.Endpoint)
	connected, asks = ask()
	p.ok(asks.Endpoint.Admit(ErrAccess))
	p.true(p.fails(soon(p, connected), ErrAccess).Origin == OriginPeer)
	down := told[*PeerDown](p, events)
	p.true(down.Endpoint == asks.Endpoint && down.Err.Status == ErrAccess, down)
	p.ok(asks.Endpoint.Close())
}

func peerCameAndWent(p *place) {
	events := make(chan Event) // without room, so that the first event is not polled before the last has come
	owner := must(Open(Options{Set: map[string]string{"transports": p.transports()}, Events: events}))
	p.Cleanup(func() { p.ok(owner.Close()) })
	uri := must(owner.Listen("tcp://127.0.0.1:0", ListenOptions{}))
	e, _ := p.open()
	p.ok(must(e.Dial(uri, DialOptions{})).Send(p.patient(), []byte("letter"), 3))
	p.ok(e.Close())
	p.eventually("it has left", func() bool { return must(owner.Stats()).ConnectionEnds == 1 })
	came := told[*Peer](p, events).Endpoint
	p.true(must(came.State()) != Closed, "its handle is valid")
	p.true(told[*PeerUp](p, events).Endpoint == came && told[*PeerDown](p, events).Endpoint == came)
	message := must(owner.Take(p.patient(), nil, 64, 3, Exact))
	p.true(string(message.Data) == "letter" && (message.Peer == nil || message.Peer == came), message)
	p.ok(came.Close())
	p.ok(came.Close())
	_, err := came.State()
	p.fails(err, ErrClosed)
}

// Without own_peers an endpoint of a peer that came ends with its PeerDown, unless it is kept.
func TestKeep(t *testing.T) {
	p := &place{t, "tcp"}
	owner, events := p.open("own_peers", "no")
	uri := must(owner.Listen("tcp://127.0.0.1:0", ListenOptions{}))
	for _, kept := range []bool{true, false} {
		e, _ := p.open()
		p.ok(must(e.Dial(uri, DialOptions{})).Connect(p.patient()))
		came := told[*Peer](p, events).Endpoint
		if kept {
			p.ok(came.Keep())
			p.fails(came.Keep(), ErrInval)
		}
		p.ok(e.Close())
		p.true(told[*PeerDown](p, events).Endpoint == came)
		_, err := came.State()
		if kept {
			p.ok(err)
		} else {
			p.fails(err, ErrClosed)
		}
		p.ok(came.Close())
	}
}

// No CLOSED event is missed, however two closes of each region meet each other, and the goroutine that polls.
func TestRegionCloses(t *testing.T) {
	p := &place{t, "tcp"}
	e, _ := p.open()
	rounds := 3000 // of each of 8 goroutines
	if testing.Short() {
		rounds /= 10
	}
	pause := func(random *rand.Rand) {
		switch random.Intn(4) {
		case 0:
			time.Sleep(time.Duration(random.Intn(50)) * time.Microsecond)
		case 1:
			runtime.Gosched()
		}
	}
	var all []<-chan error
	for seed := range int64(8) {
		all = append(all, begun(func() error {
			random, others := rand.New(rand.NewSource(seed)), rand.New(rand.NewSource(-seed))
			memory := make([]byte, 64)
			for range rounds {
				region, err := e.Lend(memory, RegionOptions{Access: Read})
				if err != nil {
					return err
				}
				other := begun(func() error {
					pause(others)
					return region.Close()
				})
				pause(random)
				if err := errors.Join(region.Close(), <-other); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for _, ended := range all {
		select {
		case err := <-ended:
			p.ok(err)
		case <-time.After(3 * patience):
			t.Fatal("a waiter was lost")
		}
	}
	e.core.table.Lock()
	defer e.core.table.Unlock()
	p.true(len(e.core.handles) == 0, len(e.core.handles))
}

// Close of one handle beside other calls on it.
func TestCloseBesideCalls(t *testing.T) {
	for _, path := range []string{"tcp", "local"} {
		c := (&place{t, path}).pair()
		var all []<-chan error
		for i := range 8 {
			all = append(all, begun(func() error {
				data := bytes.Repeat([]byte{byte(i)}, 1000)
				for {
					if err := c.ep.Put(c.patient(), data, c.ref, 0); err != nil {
						return err
					}
				}
			}), begun(func() error { return c.ep.Close() }), begun(func() error { return c.engine.Close() }))
		}
		for i, ended := range all {
			if err := soon(c.place, ended); i%3 != 0 {
				c.ok(err)
			} else if c.fails(err).Status != ErrCanceled {
				c.fails(err, ErrClosed)
			}
		}
	}
}

// Events that nobody reads hold up the engine, but not its end.
func TestUnreadEvents(t *testing.T) {
	p := &place{t, "tcp"}
	events := make(chan Event)
	owner := must(Open(Options{Set: map[string]string{"transports": "tcp"}, Events: events}))
	uri := must(owner.Listen("tcp://127.0.0.1:0", ListenOptions{}))
	e, _ := p.open()
	p.ok(must(e.Dial(uri, DialOptions{})).Connect(p.patient()))
	p.ok(soon(p, begun(owner.Close)))
	for range events {
	}
	p.ok(owner.Close())
}
