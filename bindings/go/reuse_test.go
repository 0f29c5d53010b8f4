// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"sync"
	"testing"
	"time"
)

// What calls that wait have in turn, some of which are canceled, refused or late, ends no other call: a get that returns
// before its event has not all of its bytes.
func TestOperationsReused(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		const callers, length = 32, 64 << 10
		gone := c.stale()
		for i := range callers {
			copy(c.lent()[i*length:], bytes.Repeat([]byte{byte(i + 1)}, length))
		}
		var all sync.WaitGroup
		for i := range callers {
			all.Add(1)
			go func() {
				defer all.Done()
				back, want := make([]byte, length), bytes.Repeat([]byte{byte(i + 1)}, length)
				for round := range 40 {
					clear(back)
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					ref, offset := c.ref, uint64(i*length)
					var expected error
					switch round % 4 {
					case 1:
						time.AfterFunc(time.Duration(rand.Intn(200))*time.Microsecond, cancel)
						expected = context.Canceled
					case 2:
						ref, expected = gone, ErrStale
					case 3:
						offset, expected = size, ErrRange
					}
					err := c.ep.Get(ctx, back, ref, offset)
					cancel()
					if err == nil && !bytes.Equal(back, want) {
						c.Error("it returned without its bytes")
					}
					if err != nil && !errors.Is(err, expected) || err == nil && round%4 > 1 {
						c.Error(round%4, err)
					}
				}
			}()
		}
		all.Wait()
		c.true(waiting(c.engine) == 0)
		for range 100 {
			c.true(len(operations.Get().(*operation).done) == 0, "an event is left")
		}
	})
}

// What a put needs until its event, it has from the put before.
func TestPutAllocates(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		ctx, data := context.Background(), make([]byte, 64)
		allocations := testing.AllocsPerRun(1000, func() { c.ok(c.ep.Put(ctx, data, c.ref, 0)) })
		c.true(allocations <= 1, allocations, "of a put; with the race detector, a pool passes over some")
	})
}
