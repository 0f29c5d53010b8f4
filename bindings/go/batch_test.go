// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"math/rand"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func batchResubmitted(p *place) {
	c := p.pair()
	local, table := make([]byte, 64<<10), []int32{3, 0, 2}
	b := must(c.ep.Batch())
	c.ok(b.AddSpans(PutEntries, c.ref, []Span{{local[:100], 0}, {local[100:300], 1000}}))
	c.ok(b.AddStrided(PutEntries, Strided{Local: local, LocalStride: 1000, Remote: c.ref, Offset: 10_000,
		RemoteStride: 2000, Length: 500, Count: 4}))
	c.ok(AddPages(b, PutEntries, PageShape{Length: 4096}, []PageBase{{local, c.ref, 100_000}}, table, []int32{0, 1, 2}))
	back := make([]byte, 4096)
	c.ok(b.Get(back, c.ref, 1<<20))
	for round := range byte(3) {
		must(crand.Read(local))
		copy(c.lent()[1<<20:], bytes.Repeat([]byte{round}, 4096))
		c.ok(b.Submit(c.patient(), SubmitOptions{Checksum: round == 1}))
		c.true(bytes.Equal(c.lent()[:100], local[:100]) && bytes.Equal(c.lent()[1000:1200], local[100:300]), "spans")
		for i := range 4 {
			c.true(bytes.Equal(c.lent()[10_000+2000*i:][:500], local[1000*i:][:500]), "strided")
		}
		for i, page := range table {
			c.true(bytes.Equal(c.lent()[100_000+4096*i:][:4096], local[4096*page:][:4096]), "pages")
		}
		c.true(bytes.Count(back, []byte{round}) == 4096, "get")
	}
	info := must(b.Info())
	c.true(info.Entries == 10 && !info.InFlight && info.Status == 0 && info.Bytes == 300+2000+4*4096, info)
	c.fails(b.Cancel(), ErrInval)

	other := must(c.owner.Lend(make([]byte, size), RegionOptions{Access: Read | Write}))
	to := must(other.Ref())
	c.ok(b.Rebind(c.ref, to))
	c.ok(b.Submit(c.patient(), SubmitOptions{}))
	c.true(bytes.Equal(other.Bytes()[:100], local[:100]), "at the other region")
	c.fails(b.Rebind(c.ref, to), ErrNotFound)
	c.ok(b.Reset())
	c.ok(b.Submit(c.patient(), SubmitOptions{}))
	c.true(must(b.Info()).Entries == 0, "it is empty")
	c.ok(b.Close())
}

func batchEntryStatuses(p *place) {
	c := p.pair()
	const entries, bad, length = 10, 3, 100
	gone := c.stale()
	data := make([]byte, entries*length)
	must(crand.Read(data))
	b := must(c.ep.Batch())
	for i := range entries {
		ref := c.ref
		if i == bad {
			ref = gone
		}
		c.ok(b.Put(data[i*length:][:length], ref, uint64(i*length)))
	}
	detail := c.fails(b.Submit(c.patient(), SubmitOptions{}), ErrStale)
	c.true(detail.Index == bad && must(b.Info()).FirstFailed == bad, detail)
	statuses := make([]Status, entries)
	c.ok(b.Entries(0, statuses))
	for i, status := range statuses {
		want, bytesThere := Status(0), data[i*length:][:length]
		if i == bad {
			want, bytesThere = ErrStale, make([]byte, length)
		}
		c.true(status == want && bytes.Equal(c.lent()[i*length:][:length], bytesThere), i, status)
	}
	c.fails(b.Entries(1, statuses), ErrRange)
}

func batchOrdered(p *place) {
	c := p.proxied()
	word, back := []byte("all here"), make([]byte, 8)
	writes, reads := must(c.ep.Batch()), must(c.ep.Batch())
	c.ok(writes.Put(word, c.ref, size-8))
	c.ok(reads.Get(back, c.ref, size-8))
	for round := range byte(3) {
		data := bytes.Repeat([]byte{round + 1}, size)
		clear(back)
		if c.proxy != nil {
			c.proxy.hold()
		}
		put := must(c.ep.BeginPut(c.patient(), data, c.ref, 0))
		wrote := must(writes.Begin(c.patient(), SubmitOptions{Ordered: true}))
		read := must(reads.Begin(c.patient(), SubmitOptions{Ordered: true}))
		if c.proxy != nil {
			c.true(must(writes.Info()).InFlight && must(reads.Info()).InFlight, "they wait")
			c.proxy.free()
		}
		c.ok(read.Wait())
		for _, before := range []*Pending{put, wrote} {
			select {
			case <-before.Done():
				c.ok(before.Wait())
			default:
				c.Fatal("the ordered one has overtaken")
			}
		}
		c.true(bytes.Equal(back, word), "it sees the bytes of the one before")
		// The word was written over what the put wrote, not under it.
		c.true(bytes.Equal(c.lent()[:size-8], data[8:]) && bytes.Equal(c.lent()[size-8:], word))
	}
}

func pagesStrides(p *place) {
	c := p.pair()
	const pages, rows, length = 16, 3, 96
	shape := PageShape{Length: length, Rows: rows, LocalStride: 1000, RemoteStride: 700, LocalRowStride: 200,
		RemoteRowStride: 128}
	local, remote := make([]int32, pages), make([]int32, pages)
	for i, page := range rand.Perm(pages) {
		local[i], remote[(i*5)%pages] = int32(page), int32(i)
	}
	memory, back := make([]byte, 2*pages*1000), make([]byte, 2*pages*1000)
	must(crand.Read(memory))
	bases := func(of []byte) []PageBase { // two layers
		return []PageBase{{of[:pages*1000], c.ref, 50}, {of[pages*1000:], c.ref, 50_000}}
	}
	b := must(c.ep.Batch())
	c.ok(AddPages(b, PutEntries, shape, bases(memory), local, remote))
	c.ok(b.Submit(c.patient(), SubmitOptions{}))
	wanted := make([]byte, size)
	for layer := range 2 {
		for i := range local {
			for row := range rows {
				to := []int{50, 50_000}[layer] + int(remote[i])*700 + row*128
				copy(wanted[to:to+length], memory[layer*pages*1000+int(local[i])*1000+row*200:])
			}
		}
	}
	c.true(bytes.Equal(c.lent(), wanted), "each byte where arithmetic says, and no other")
	c.ok(b.Reset())
	c.ok(AddPages(b, GetEntries, shape, bases(back), local, remote))
	c.ok(b.Submit(c.patient(), SubmitOptions{}))
	for layer := range 2 {
		for page := range pages {
			for row := range rows {
				at := layer*pages*1000 + page*1000 + row*200
				c.true(bytes.Equal(back[at:at+length], memory[at:at+length]), "it came back")
			}
		}
	}
	c.ok(b.Reset())
	wide := []uint64{1, 0}
	c.ok(AddPages(b, PutEntries, PageShape{Length: 100}, []PageBase{{memory[:200], c.ref, 0}}, wide, wide))
	c.ok(b.Submit(c.patient(), SubmitOptions{}))
	c.true(bytes.Equal(c.lent()[:200], memory[:200]))
}

func notifyOnBatch(p *place) {
	c := p.pair()
	b := must(c.ep.Batch())
	data := make([]byte, 1<<20)
	c.ok(b.Put(data, c.ref, 0))
	for round := range byte(10) {
		copy(data, bytes.Repeat([]byte{round + 1}, len(data)))
		ended := begun(func() error {
			return b.Submit(c.patient(), SubmitOptions{Notify: &Note{70 + uint64(round), []byte("layer")}})
		})
		n := told[*Notification](p, c.ownerEvents)
		c.true(bytes.Equal(c.lent()[:len(data)], data), "all are there")
		c.true(n.Key == 70+uint64(round) && string(n.Data) == "layer" && n.Err == nil, n)
		c.ok(soon(p, ended))
	}
}

func notifyOnFailure(p *place) {
	c := p.pair()
	brief := must(c.owner.Lend(make([]byte, 64), RegionOptions{Access: Write}))
	b := must(c.ep.Batch())
	c.ok(b.Put(make([]byte, 4096), c.ref, 0))
	c.ok(b.Put(make([]byte, 64), must(brief.Ref()), 0))
	c.ok(brief.Close())
	c.fails(b.Submit(context.Background(), SubmitOptions{Notify: &Note{8, []byte("never told")}}), ErrStale)
	n := told[*Notification](p, c.ownerEvents)
	c.true(n.Key == 8 && len(n.Data) == 0 && n.Err != nil && n.Err.Status == ErrStale, n)
}

// Calls on one batch that meet are busy, or one after the other: the batch keeps the memory of all that it has added.
func TestBatchCallsMeet(t *testing.T) {
	onPaths(t, func(p *place) {
		c := p.pair()
		b := must(c.ep.Batch())
		var added, freed atomic.Uint64
		var all []<-chan error
		for range 8 {
			all = append(all, begun(func() error {
				for i := range uint64(500) {
					memory := new([64]byte)
					err := b.Put(memory[:], c.ref, 64*i)
					if err == nil {
						added.Add(1)
						runtime.SetFinalizer(memory, func(*[64]byte) { freed.Add(1) })
					} else if !errors.Is(err, ErrBusy) {
						return err
					}
				}
				return nil
			}))
		}
		for _, ended := range all {
			c.ok(soon(p, ended))
		}
		for range 3 {
			runtime.GC()
			time.Sleep(time.Millisecond) // for the finalizers
		}
		c.true(freed.Load() == 0, freed.Load(), "of", added.Load())
		c.ok(b.Submit(c.patient(), SubmitOptions{}))
		c.true(must(b.Info()).Entries == added.Load() && added.Load() > 0, added.Load())

		b.calls.Lock() // as a call has it
		for _, err := range []error{b.Put(nil, c.ref, 0), b.Get(nil, c.ref, 0), b.AddSpans(PutEntries, c.ref, nil),
			b.AddStrided(PutEntries, Strided{Remote: c.ref}), b.Rebind(c.ref, c.ref), b.Entries(0, nil), b.Reset(),
			b.Submit(c.patient(), SubmitOptions{})} {
			c.fails(err, ErrBusy)
		}
		c.fails(b.Cancel(), ErrInval)
		c.true(must(b.Info()).Entries == added.Load())
		b.calls.Unlock()
		c.ok(b.Reset())
		c.ok(b.Close())
	})
}
