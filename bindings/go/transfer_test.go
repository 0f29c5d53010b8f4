// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
)

func echoPutGet(p *place) {
	c := p.pair()
	sent, back := make([]byte, 1<<20), make([]byte, 1<<20)
	must(rand.Read(sent))
	c.ok(c.ep.Put(c.patient(), sent, c.ref, 4096))
	c.true(bytes.Equal(sent, c.lent()[4096:4096+len(sent)]), "it is in the region")
	c.ok(c.ep.Get(c.patient(), back, c.ref, 4096))
	c.true(bytes.Equal(sent, back), "it came back")
}

func zeroLength(p *place) {
	c := p.pair()
	for range 3 {
		c.ok(c.ep.Put(c.patient(), nil, c.ref, size))
		c.ok(c.ep.Get(c.patient(), []byte{}, c.ref, 0))
	}
	stats := must(c.engine.Stats())
	c.true(stats.Put.Completed == 3 && stats.Get.Completed == 3 && waiting(c.engine) == 0, "one event each")
}

func lookupWaits(p *place) {
	c := p.pair()
	found := begun(func() error {
		_, blob, err := c.ep.Lookup(c.patient(), "later", Wait)
		if string(blob) != "now" {
			return errors.Join(err, errors.New("another blob"))
		}
		return err
	})
	c.eventually("the lookup is there", func() bool { return waiting(c.engine) == 1 })
	must(c.owner.Lend(make([]byte, 64), RegionOptions{Name: "later", Access: Read, Blob: []byte("now")}))
	c.ok(soon(p, found))
}

func lookupMissing(p *place) {
	c := p.pair()
	_, _, err := c.ep.Lookup(c.patient(), "nothing")
	detail := c.fails(err, ErrNotFound)
	c.true(strings.Contains(detail.Text, "\"nothing\""), detail)
}

func refAsBytes(p *place) {
	c := p.pair()
	out, in, err := os.Pipe() // another channel
	c.ok(err)
	defer out.Close()
	must(in.Write(c.ref[:]))
	c.ok(in.Close())
	var carried Ref
	must(io.ReadFull(out, carried[:]))
	c.ok(c.ep.Put(c.patient(), []byte("by bytes"), carried, 0))
	c.true(string(c.lent()[:8]) == "by bytes")
	text := c.ref.String()
	carried = must(ParseRef(text))
	c.ok(c.ep.Put(c.patient(), []byte("by text"), carried, 0))
	c.true(string(c.lent()[:7]) == "by text")
	_, err = ParseRef(text + "=")
	c.fails(err, ErrInval)
	info := must(carried.Info())
	c.true(info.Owner == must(c.owner.ID()) && info.Length == size && info.Access == Read|Write|Atomic, info)
	for i := range carried {
		changed := carried
		changed[i] ^= 0x10
		err := c.ep.Put(c.patient(), []byte("changed"), changed, 0)
		c.true(errors.Is(err, ErrInval) || errors.Is(err, ErrVersion), "byte ", i, " is changed: ", err)
	}
	c.true(string(c.lent()[:7]) == "by text")
}

func rangeRefused(p *place) {
	c := p.pair()
	for _, offset := range []uint64{size - 3, size + 1, 1<<64 - 2} {
		c.fails(c.ep.Put(c.patient(), []byte("four"), c.ref, offset), ErrRange)
		c.fails(c.ep.Get(c.patient(), []byte("four"), c.ref, offset), ErrRange)
	}
	c.true(bytes.Count(c.lent(), []byte{0}) == size, "no byte was moved")
}

func accessRefused(p *place) {
	c := p.pair()
	shown := must(c.owner.Lend([]byte("shown"), RegionOptions{Access: Read}))
	ref := must(shown.Ref())
	c.fails(c.ep.Put(c.patient(), []byte("wrote"), ref, 0), ErrAccess)
	back := make([]byte, 5)
	c.ok(c.ep.Get(c.patient(), back, ref, 0))
	c.true(string(back) == "shown", string(back))
}

// Memory is a []byte, which is contiguous and may be written: no other kind compiles. What is left to refuse is what
// would leave it.
func bufferKinds(p *place) {
	c := p.pair()
	into := reflect.TypeOf((*Endpoint).Get).In(2)
	for _, kind := range []any{"a string", [][]byte{}, [4]byte{}, &[4]byte{}} {
		c.true(!reflect.TypeOf(kind).AssignableTo(into), reflect.TypeOf(kind))
	}
	b := must(c.ep.Batch())
	local := make([]byte, 100)
	c.fails(b.AddStrided(GetEntries, Strided{Local: local, LocalStride: 33, Remote: c.ref, RemoteStride: 8, Length: 2,
		Count: 4}), ErrRange)
	c.fails(AddPages(b, GetEntries, PageShape{Length: 10}, []PageBase{{Local: local, Remote: c.ref}}, []int32{0, 10},
		[]int32{0, 1}), ErrRange)
	c.fails(AddPages(b, PutEntries, PageShape{Length: 10}, []PageBase{{Local: local, Remote: c.ref}}, []int32{0, -1},
		[]int32{0, 1}), ErrRange)
	c.fails(AddPages(b, PutEntries, PageShape{Length: 10, Rows: 11}, []PageBase{{Local: local, Remote: c.ref}},
		[]int32{0}, []int32{0}), ErrRange)
	c.true(!PageShape{Length: 2, Rows: 1<<63 + 1}.fits(100, 0), "its length wraps")
	c.true(!PageShape{Length: 2, Rows: 1 << 63}.fits(100, 1) && PageShape{Length: 2, Rows: 5}.fits(100, 9))
	c.ok(b.Submit(c.patient(), SubmitOptions{}))
	c.true(must(b.Info()).Entries == 0, "nothing was added")
}

func bufferKeptAlive(p *place) {
	c := p.pair()
	const length = 50_000
	var all sync.WaitGroup
	for i := range 50 {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := c.ep.Put(c.patient(), bytes.Repeat([]byte{byte(i)}, length), c.ref, uint64(i)*length); err != nil {
				c.Error(err)
			}
		}()
		if i%10 == 0 {
			runtime.GC()
		}
	}
	all.Wait()
	for i := range 50 {
		c.true(bytes.Count(c.lent()[i*length:][:length], []byte{byte(i)}) == length, i)
	}
}

func thousandConcurrent(p *place) {
	c := p.proxied("max_operations", "64")
	if c.proxy != nil {
		c.proxy.hold() // until the endpoint is full
	}
	errs := make(chan error, 1000)
	for i := range uint64(1000) {
		go func() {
			errs <- c.ep.Put(c.patient(), bytes.Repeat(binary.LittleEndian.AppendUint64(nil, i+1), 128), c.ref, 1024*i)
		}()
	}
	if c.proxy != nil {
		c.eventually("it is full", func() bool { return len(errs) > 0 })
		c.proxy.free()
	}
	ended := map[bool]int{}
	for range cap(errs) {
		err := soon(p, errs)
		if err != nil {
			c.fails(err, ErrAgain)
		}
		ended[err == nil]++
	}
	full, done := ended[false], ended[true]
	c.true(full > 0 || c.proxy == nil, "one of them finds no room")
	if full > 0 {
		c.true(told[*Room](p, c.events).Endpoint == c.ep)
	}
	written := 0
	for i := range uint64(1000) {
		if first := binary.LittleEndian.Uint64(c.lent()[1024*i:]); first != 0 {
			c.true(first == i+1 && binary.LittleEndian.Uint64(c.lent()[1024*i+1016:]) == i+1, "whole")
			written++
		}
	}
	c.true(written == done && waiting(c.engine) == 0, written, done, full)
}

func quietFlush(p *place) {
	c := p.pair()
	ctx := c.patient()
	events := must(c.engine.Stats()).Events
	for i := range uint64(100) {
		c.ok(c.ep.Put(ctx, bytes.Repeat([]byte{byte(i + 1)}, 8192), c.ref, i*8192, Quiet))
		if i%25 == 0 {
			runtime.GC() // the memory is nobody's but the engine's
		}
	}
	c.true(len(c.ep.pins) == 100, "its memory stays")
	c.ok(c.ep.Flush(ctx))
	for i := range uint64(100) {
		c.true(bytes.Count(c.lent()[i*8192:][:8192], []byte{byte(i + 1)}) == 8192, i)
	}
	c.true(must(c.engine.Stats()).Events <= events+1 && len(c.ep.pins) == 0, "no event of a put")

	small := []byte("small")
	c.ok(c.ep.Put(ctx, small, c.ref, 0, Quiet, Copy))
	copy(small, "other")
	c.ok(c.ep.Flush(ctx))
	c.true(string(c.lent()[:5]) == "small", "it was copied")

	c.ok(c.ep.Put(ctx, []byte("stale"), c.stale(), 0, Quiet))
	c.ok(c.ep.Put(ctx, []byte("well"), c.ref, 0, Quiet))
	failed := told[*QuietFailed](p, c.events)
	c.true(failed.Endpoint == c.ep && errors.Is(failed.Err, ErrStale), failed.Err)
	c.fails(c.ep.Flush(ctx), ErrStale)
	c.ok(c.ep.Flush(ctx))
}

func checksumMismatch(p *place) {
	c := p.proxied("checksum", "yes")
	data := bytes.Repeat([]byte{5}, size)
	c.proxy.flipAt.Store(size / 4)
	c.fails(c.ep.Put(c.patient(), data, c.ref, 0), ErrChecksum)
	c.true(c.proxy.flipAt.Load() == 0, "a byte was changed")
	c.ok(c.ep.Put(c.patient(), data, c.ref, 0))
	c.true(bytes.Equal(c.lent(), data))
}

func atomicWords(p *place) {
	c := p.pair()
	ctx := c.patient()
	for i := range uint64(3) {
		c.true(must(c.ep.Add(ctx, c.ref, 8, 5)) == 5*i)
	}
	c.true(must(c.ep.CompareAndSwap(ctx, c.ref, 8, 14, 1)) == 15)
	c.true(must(c.ep.CompareAndSwap(ctx, c.ref, 8, 15, 1)) == 15)
	c.true(binary.NativeEndian.Uint64(c.lent()[8:]) == 1)
	_, err := c.ep.Add(ctx, c.ref, 4, 1)
	c.fails(err, ErrInval)
}

func sameHostPath(p *place) {
	c := p.pair()
	says := func(what string) func() bool {
		return func() bool { return strings.Contains(must(c.engine.Describe()), what) }
	}
	c.ok(c.ep.Put(c.patient(), []byte("near"), c.ref, 0))
	if p.path == "local" {
		c.eventually("the local path", says(`"control": "local"`))
		c.true(must(c.engine.Transports())&(1<<TransportSHM) != 0)
	}
	remote, _ := (&place{c.T, "tcp"}).open()
	far := must(remote.Dial(c.uri, DialOptions{}))
	ref, _, err := far.Lookup(c.patient(), "pool")
	c.ok(err)
	data := bytes.Repeat([]byte{3}, size)
	c.ok(far.Put(c.patient(), data, ref, 0))
	c.true(bytes.Equal(c.lent(), data))
	c.true(!strings.Contains(must(remote.Describe()), `"control": "local"`), "it went by TCP")
	copy(c.lent(), "elsewhere")
	c.ok(c.ep.Put(c.patient(), data, c.ref, 0))
	c.true(bytes.Equal(c.lent(), data))
}
