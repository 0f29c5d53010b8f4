// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"context"
	"runtime"
	"testing"
	"time"
)

// onPaths runs a test on each path that two engines of one host have.
func onPaths(t *testing.T, run func(*place)) {
	for _, path := range []string{"tcp", "local"} {
		t.Run(path, func(t *testing.T) { run(&place{t, path}) })
	}
}

func TestPendingTransfers(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		const length = 50_000
		var puts []*Pending
		for i := range 50 {
			puts = append(puts, must(c.ep.BeginPut(c.patient(), bytes.Repeat([]byte{byte(i)}, length), c.ref, uint64(i*length))))
			if i%10 == 0 {
				runtime.GC() // the memory is nobody's but the operation's
			}
		}
		for _, put := range puts {
			c.ok(put.Wait())
			c.ok(put.Wait())
		}
		back := make([]byte, length)
		for i := range 50 {
			c.ok(must(c.ep.BeginGet(c.patient(), back, c.ref, uint64(i*length))).Wait())
			c.true(bytes.Count(back, []byte{byte(i)}) == length, i)
		}
		_, err := c.ep.BeginPut(c.patient(), back, c.ref, size)
		c.fails(err, ErrRange)
		c.ok(c.region.Close())
		c.fails(must(c.ep.BeginPut(c.patient(), back, c.ref, 0)).Wait(), ErrStale)
		c.true(waiting(c.engine) == 0)
	})
}

// What one goroutine begins is begun in its order.
func TestPendingOrder(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		var sends []*Pending
		for i := range 100 {
			sends = append(sends, must(c.ep.BeginSend(c.patient(), []byte{byte(i)}, 1)))
		}
		for i := range 100 {
			c.true(must(c.owner.Take(c.patient(), nil, 1, 1, Exact)).Data[0] == byte(i), "in order within a tag")
		}
		for _, send := range sends {
			c.ok(send.Wait())
		}
		data, commit := must(c.ep.Batch()), must(c.ep.Batch())
		c.ok(data.Put(bytes.Repeat([]byte{9}, size-8), c.ref, 0))
		c.ok(commit.Put([]byte("all here"), c.ref, size-8))
		first := must(data.Begin(c.patient(), SubmitOptions{}))
		second := must(commit.Begin(c.patient(), SubmitOptions{Ordered: true}))
		c.ok(second.Wait())
		select {
		case <-first.Done():
		default:
			c.Error("the ordered one has overtaken")
		}
		c.ok(first.Wait())
		c.true(bytes.Count(c.lent(), []byte{9}) == size-8 && string(c.lent()[size-8:]) == "all here")
	})
}

func TestPendingContext(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		letter := []byte("nobody receives it")
		ctx, cancel := context.WithCancel(context.Background())
		send := must(c.ep.BeginSend(ctx, letter, 7, Sync))
		select {
		case <-send.Done():
			c.Fatal("it is stuck, and ended: ", send.Wait())
		case <-time.After(20 * time.Millisecond): // the wait is given up
		}
		c.true(waiting(c.engine) == 1, "the operation goes on")
		cancel()
		<-send.Done()
		c.fails(send.Wait(), ErrCanceled, context.Canceled)
		_, err := c.ep.BeginSend(ctx, letter, 7)
		c.fails(err, ErrCanceled, context.Canceled)

		brief, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		send = must(c.ep.BeginSend(brief, letter, 7, Sync))
		c.fails(send.Wait(), ErrTimedOut, context.DeadlineExceeded)
		_, err = c.ep.BeginPut(c.patient(), letter, c.ref, 0, Quiet)
		c.fails(err, ErrInval)
	})
}

func TestPendingCloses(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		ctx := context.Background()
		send := must(c.ep.BeginSend(ctx, []byte("nobody receives it"), 7, Sync))
		b := must(c.ep.Batch())
		c.ok(b.Put([]byte("ordered"), c.ref, 0))
		held := must(b.Begin(ctx, SubmitOptions{Ordered: true})) // the send may hold it
		c.ok(b.Close())
		select {
		case <-held.Done():
		default:
			c.Error("the batch is closed, and under way")
		}
		c.ok(c.ep.Close())
		c.fails(send.Wait(), ErrCanceled)
		_, err := c.ep.BeginPut(ctx, []byte("late"), c.ref, 0)
		c.fails(err, ErrClosed)
		_, err = b.Begin(ctx, SubmitOptions{})
		c.fails(err, ErrClosed)
	})
}
