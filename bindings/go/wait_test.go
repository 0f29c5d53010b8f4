// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"
)

func noListener(p *place) {
	e, _ := p.open()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	p.ok(listener.Close())
	nobody := must(e.Dial("tcp://"+address, DialOptions{}))
	detail := p.fails(nobody.Connect(p.patient()), ErrUnreachable)
	p.true(strings.Contains(detail.Text, address), detail)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	p.fails(nobody.Put(ctx, []byte("waits"), Ref{}, 0), ErrInval) // no ref
	_, _, err := nobody.Lookup(ctx, "name")
	p.fails(err, ErrTimedOut, context.DeadlineExceeded)
}

func deadlineExpires(p *place) {
	c := p.proxied()
	begin, free := c.stuck()
	defer free()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	c.fails(begin(ctx), ErrTimedOut, context.DeadlineExceeded)
	c.true(c.kind().Expired == 1 && c.kind().Failed == 0, "expired, not failed")
	<-ctx.Done() // by Go's clock, too
	c.fails(begin(ctx), ErrTimedOut, context.DeadlineExceeded)
	c.true(c.kind().Submitted == 1, "a context that has ended begins nothing")
}

func waitIsNotDeadline(p *place) {
	c := p.proxied()
	begin, free := c.stuck()
	ended := begun(func() error { return begin(c.patient()) })
	c.submitted(1)
	select {
	case err := <-ended:
		c.Fatal("it is stuck, and ended: ", err)
	case <-time.After(20 * time.Millisecond): // the wait is given up
	}
	counter := must(c.engine.Count(1, 1, 0))
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := counter.Wait(ctx)
	c.fails(err, ErrTimedOut, context.DeadlineExceeded)
	c.true(c.kind().Canceled+c.kind().Expired == 0, "it is left alone")
	free()
	c.ok(soon(p, ended))
	c.true(c.kind().Completed == 1)
}

func cancelKeepsBuffer(p *place) {
	c := p.proxied()
	begin, free := c.stuck()
	ctx, cancel := context.WithCancel(context.Background())
	ended := begun(func() error {
		err := begin(ctx)
		if left := waiting(c.engine); left != 0 {
			return fmt.Errorf("it returned before its event: %d wait", left)
		}
		return err
	})
	c.submitted(1)
	cancel()
	detail := c.fails(soon(p, ended), ErrCanceled, context.Canceled)
	c.true(c.kind().Canceled == 1 && c.kind().Submitted == 1)
	c.true(detail.Fenced == (c.proxy == nil), "who is held can have confirmed nothing")
	free()
	c.ok(c.ep.Put(c.patient(), []byte("after"), c.ref, 0))
}

// hole is an address where nobody answers.
func (p *place) hole() string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	p.Cleanup(func() { listener.Close() })
	return "tcp://" + listener.Addr().String()
}

// waits are calls that wait for what does not come, until the context ends.
func (c *pair) waits() map[string]func(ctx context.Context) error {
	hole := must(c.engine.Dial(c.hole(), DialOptions{}))
	return map[string]func(ctx context.Context) error{
		"connect": func(ctx context.Context) error { return hole.Connect(ctx) },
		"probe": func(ctx context.Context) error {
			_, err := hole.Probe(ctx)
			return err
		},
		"lookup": func(ctx context.Context) error {
			_, _, err := hole.Lookup(ctx, "pool")
			return err
		},
		"waiting lookup": func(ctx context.Context) error {
			_, _, err := c.ep.Lookup(ctx, "never", Wait)
			return err
		},
	}
}

// prompt says that a wait ends within 100 ms. On a busy machine not each does, so one of many has to.
func (p *place) prompt(what string, wait func() time.Duration) {
	p.Helper()
	best := wait()
	for range 20 {
		if best < 100*time.Millisecond {
			return
		}
		best = min(best, wait())
	}
	p.Fatal(what, " took ", best)
}

func waitsCanceled(p *place) {
	c := p.pair()
	for what, wait := range c.waits() {
		p.prompt(what, func() time.Duration {
			ctx, cancel := context.WithCancel(context.Background())
			ended := begun(func() error { return wait(ctx) })
			c.eventually("it is there", func() bool { return waiting(c.engine) == 1 })
			cancel()
			began := time.Now()
			c.fails(soon(p, ended), ErrCanceled, context.Canceled)
			return time.Since(began)
		})
	}
	c.true(must(c.ep.Probe(c.patient())) > 0)
}

func TestWaitsDeadline(t *testing.T) {
	for _, path := range []string{"tcp", "local"} {
		c := (&place{t, path}).pair()
		for what, wait := range c.waits() {
			c.prompt(what, func() time.Duration {
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				c.fails(wait(ctx), ErrTimedOut, context.DeadlineExceeded)
				return time.Since(began)
			})
		}
	}
}

func cancelByMask(p *place) {
	c := p.pair()
	_, err := c.engine.Recv(c.patient(), nil, make([]byte, 8), 1, Exact, Group(MaxGroup+1))
	c.fails(err, ErrInval)
	receive := func(group uint32, tag uint64) <-chan error {
		return begun(func() error {
			_, err := c.owner.Recv(context.Background(), nil, make([]byte, 8), tag, Exact, Group(group))
			return err
		})
	}
	request := []<-chan error{receive(5, 1), receive(5, 2), receive(5, 3)}
	other := receive(6, 4)
	c.eventually("all are there", func() bool { return waiting(c.owner) == 4 })
	c.ok(c.owner.CancelGroup(5))
	for _, ended := range request {
		c.fails(soon(p, ended), ErrCanceled)
	}
	c.true(waiting(c.owner) == 1, "the other goes on")
	c.ok(c.ep.Send(c.patient(), []byte("for it"), 4))
	c.ok(soon(p, other))
	c.fails(c.owner.CancelGroup(0), ErrInval)
}

// Engines, regions and endpoints are for any thread; a batch is for one call at a time.
func wrongThread(p *place) {
	c := p.proxied()
	var all []<-chan error
	for i := range uint64(8) {
		all = append(all, begun(func() error {
			runtime.LockOSThread() // and the thread ends with the goroutine
			return c.ep.Put(c.patient(), []byte{byte(i + 1)}, c.ref, size-8+i)
		}))
	}
	for _, ended := range all {
		c.ok(soon(p, ended))
	}
	c.true(string(c.lent()[size-8:]) == "\x01\x02\x03\x04\x05\x06\x07\x08")

	b := must(c.ep.Batch())
	c.ok(b.Put([]byte("ordered"), c.ref, size-8))
	begin, free := c.stuck()
	stuck := begun(func() error { return begin(c.patient()) })
	c.submitted(1)
	submitted := begun(func() error { return b.Submit(c.patient(), SubmitOptions{Ordered: true}) })
	c.eventually("it is in flight", func() bool { return must(b.Info()).InFlight })
	c.fails(b.Put([]byte("late"), c.ref, 0), ErrBusy)
	c.fails(b.Reset(), ErrBusy)
	c.fails(b.Submit(c.patient(), SubmitOptions{}), ErrBusy)
	free()
	c.ok(soon(p, stuck))
	c.ok(soon(p, submitted))
	c.ok(b.Reset())
}

// broken is a context that panics.
type broken struct{ context.Context }

func (broken) Deadline() (time.Time, bool) { panic(errors.New("of the user")) }

// Events come through a channel, here from an engine that waits until each is taken, and what handles them is the user's
// own code. Of that the binding itself calls a context alone.
func exceptionInCallback(p *place) {
	c := p.pair()
	events := make(chan Event)
	listener := must(Open(Options{Set: map[string]string{"transports": p.transports()}, Events: events}))
	defer listener.Close()
	ep := must(c.engine.Dial(must(listener.Listen("tcp://127.0.0.1:0", ListenOptions{})), DialOptions{}))
	thrown := func(call func()) (err error) {
		defer func() { err, _ = recover().(error) }()
		call()
		return nil
	}
	ended := begun(func() error {
		return errors.Join(ep.Notify(c.patient(), nil, 1), ep.Notify(c.patient(), nil, 2))
	})
	err := thrown(func() { panic(fmt.Errorf("of the user, told %d", told[*Notification](p, events).Key)) })
	c.true(err != nil && err.Error() == "of the user, told 1", err)
	c.true(told[*Notification](p, events).Key == 2, "the next one comes")
	c.ok(soon(p, ended))

	err = thrown(func() { c.ep.Put(broken{context.Background()}, []byte("bad"), c.ref, 0) })
	c.true(err != nil && err.Error() == "of the user", err)
	err = thrown(func() { c.ep.BeginPut(broken{context.Background()}, []byte("bad"), c.ref, 0) })
	c.true(err != nil && err.Error() == "of the user", err)
	c.true(waiting(c.engine) == 0 && c.lent()[0] == 0, "nothing was begun")
	c.ok(c.ep.Put(c.patient(), []byte("well"), c.ref, 0))
	c.true(string(c.lent()[:4]) == "well")
}
