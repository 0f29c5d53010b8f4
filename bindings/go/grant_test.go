// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"context"
	"strings"
	"time"
)

func counterDeadline(p *place) {
	c := p.pair()
	ctx := c.patient()
	all := must(c.owner.Count(1, 3, 0))
	part := must(c.owner.Count(2, 5, 3*time.Second)) // enough for two notifications on a busy machine
	_, err := c.owner.Count(1, 3, 0)
	c.fails(err, ErrExist)
	for range 3 {
		c.ok(c.ep.Notify(ctx, nil, 1))
	}
	for range 2 {
		c.ok(c.ep.Notify(ctx, nil, 2))
	}
	for range 2 { // as often as it is asked
		seen, err := all.Wait(ctx)
		c.true(seen == 3 && err == nil, seen, err)
	}
	seen, err := part.Wait(ctx)
	detail := c.fails(err, ErrTimedOut)
	c.true(seen == 2 && strings.Contains(detail.Text, "2 of 5"), seen, detail)
	c.ok(all.Close())
	c.ok(c.ep.Notify(ctx, nil, 1))
	c.true(told[*Notification](p, c.ownerEvents).Key == 1, "it is an event again")
}

// The header has XFER_EREVOKED for a grant whose lease has ended.
func grantLease(p *place) {
	c := p.pair()
	pool := must(c.owner.Alloc(4096, RegionOptions{}))
	_, err := pool.Ref()
	c.fails(err, ErrAccess)
	g := must(pool.Grant(GrantOptions{Access: Write, Offset: 1024, Length: 64, Lease: time.Hour}))
	c.ok(c.ep.Put(c.patient(), []byte("a part"), g.Ref(), 8))
	c.true(string(pool.Bytes()[1032:1038]) == "a part")
	c.fails(c.ep.Put(c.patient(), make([]byte, 64), g.Ref(), 1), ErrRange)
	c.fails(c.ep.Get(c.patient(), make([]byte, 8), g.Ref(), 0), ErrAccess)
	c.ok(g.Err())
	c.ok(g.Renew(30 * time.Millisecond))
	soon(p, g.Ended())
	c.fails(g.Err(), ErrTimedOut)
	c.fails(c.ep.Put(c.patient(), []byte("late"), g.Ref(), 0), ErrRevoked)
	c.fails(g.Renew(time.Hour), ErrRevoked)
	c.true(bytes.Count(pool.Bytes()[1024:1032], []byte{0}) == 8)
}

func grantRevoked(p *place) {
	c := p.pair()
	const rounds, most = 5, 1000
	pool := must(c.owner.Alloc(size, RegionOptions{}))
	data, quiet := bytes.Repeat([]byte{1}, size), bytes.Repeat([]byte{0xee}, size)
	cut := 0
	// The puts may be quicker than the revocation in each of a few rounds.
	for round := 0; round < rounds || cut == 0 && round < most; round++ {
		g := must(pool.Grant(GrantOptions{Access: Write, Length: size}))
		var puts []*Pending
		for range 4 {
			puts = append(puts, must(c.ep.BeginPut(context.Background(), data, g.Ref(), 0)))
		}
		c.ok(g.Revoke())
		soon(p, g.Ended())
		c.ok(g.Err())
		copy(pool.Bytes(), quiet) // it is the owner's again
		for _, put := range puts {
			if err := put.Wait(); err != nil {
				c.fails(err, ErrRevoked)
				cut++
			}
		}
		c.fails(c.ep.Put(c.patient(), []byte("late"), g.Ref(), 0), ErrRevoked)
		c.true(bytes.Equal(pool.Bytes(), quiet), "nothing lands after the revocation has")
		c.fails(g.Revoke(), ErrRevoked)
	}
	c.true(cut > 0, "no put was under way")
}
