// SPDX-License-Identifier: Apache-2.0

package fakecuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"xfer"
	"xfer/internal/fakecuda"
)

const (
	size  = 1 << 20
	block = 4096
)

// The tests are a process of their own: the driver stays with it.
func TestMain(m *testing.M) {
	path := os.Getenv("XFER_TEST_FAKE_CUDA")
	if path == "" {
		fmt.Println("skip: the library was built without the headers of CUDA")
		return
	}
	if !fakecuda.Load(path) {
		fmt.Println("no driver of CUDA for tests:", path)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// pair is an owner that lends host memory, and an engine with an endpoint to it.
type pair struct {
	*testing.T
	ctx           context.Context
	owner, engine *xfer.Engine
	ep            *xfer.Endpoint
	pool          []byte
	ref           xfer.Ref
}

// onDevice runs a test on each path.
func onDevice(t *testing.T, test func(*pair)) {
	for _, transports := range []string{"tcp", "tcp,shm", "loopback"} {
		t.Run(transports, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			p := &pair{T: t, ctx: ctx, owner: must(xfer.Open(options(transports)))}
			defer p.owner.Close()
			region := must(p.owner.Alloc(size, xfer.RegionOptions{Access: xfer.Read | xfer.Write}))
			p.pool, p.ref = region.Bytes(), must(region.Ref())
			if transports == "loopback" {
				p.engine, p.ep = p.owner, must(p.owner.Dial("", xfer.DialOptions{Peer: must(p.owner.ID())}))
			} else {
				p.engine = must(xfer.Open(options(transports)))
				defer p.engine.Close()
				uri := must(p.owner.Listen("tcp://127.0.0.1:0", xfer.ListenOptions{}))
				p.ep = must(p.engine.Dial(uri, xfer.DialOptions{}))
			}
			test(p)
			p.true(fakecuda.Wrong() == 0, "the driver was misused")
		})
	}
}

func options(transports string) xfer.Options {
	return xfer.Options{Set: map[string]string{"transports": transports}}
}

func (p *pair) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *pair) true(is bool, what string) {
	p.Helper()
	if !is {
		p.Fatal(what)
	}
}

// device is memory of the device with those bytes, until the end of the test.
func (p *pair) device(content []byte) []byte {
	at := fakecuda.Alloc(content)
	p.Cleanup(func() { fakecuda.Free(at) })
	memory := xfer.DeviceMemory(at, len(content))
	p.true(len(memory) == len(content) && cap(memory) == len(content), "the slice has another length")
	return memory
}

// seen is what the driver reads there.
func seen(memory []byte) []byte { return fakecuda.Read(address(memory), len(memory)) }

func address(memory []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(memory))) }

func pattern(seed int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*7 + i/251 + seed)
	}
	return data
}

func TestPutAndGet(t *testing.T) {
	onDevice(t, func(p *pair) {
		source, target := p.device(pattern(1)), p.device(make([]byte, size))
		p.ok(p.ep.Put(p.ctx, source, p.ref, 0))
		p.true(bytes.Equal(p.pool, pattern(1)), "another put")
		runtime.GC() // with the slices on the stack
		p.ok(p.ep.Get(p.ctx, target[size/2:], p.ref, 0))
		p.true(bytes.Equal(seen(target), append(make([]byte, size/2), pattern(1)[:size/2]...)), "another get")

		begun := must(p.ep.BeginPut(p.ctx, p.device(pattern(2)), p.ref, 0))
		runtime.GC() // and where only the operation has one
		p.ok(begun.Wait())
		p.true(bytes.Equal(p.pool, pattern(2)), "another put that was begun")
		p.ok(must(p.ep.BeginGet(p.ctx, target, p.ref, 0)).Wait())
		p.true(bytes.Equal(seen(target), pattern(2)), "another get that was begun")
		p.ok(p.ep.Put(p.ctx, source, p.ref, 0, xfer.Quiet))
		p.ok(p.ep.Flush(p.ctx))
		p.true(bytes.Equal(p.pool, pattern(1)), "another put that was quiet")
	})
}

func TestMessages(t *testing.T) {
	onDevice(t, func(p *pair) {
		target := p.device(make([]byte, size))
		sent := must(p.ep.BeginSend(p.ctx, p.device(pattern(3)), 7, xfer.Sync))
		message := must(p.owner.Recv(p.ctx, nil, target, 7, xfer.Exact))
		p.ok(sent.Wait())
		p.true(message.Length == size && bytes.Equal(seen(target), pattern(3)), "another message")

		few := make([]byte, 64) // which would come along, were they the host's
		sent = must(p.ep.BeginSend(p.ctx, target[:64], 8))
		must(p.owner.Recv(p.ctx, nil, few, 8, xfer.Exact))
		p.ok(sent.Wait())
		p.true(bytes.Equal(few, pattern(3)[:64]), "another short message")
	})
}

func TestBatches(t *testing.T) {
	onDevice(t, func(p *pair) {
		source, target := p.device(pattern(4)), p.device(make([]byte, 7*block))
		at := func(memory []byte, i int) []byte { return memory[i*block : (i+1)*block] }
		batch := must(p.ep.Batch())
		defer batch.Close()
		p.ok(batch.AddSpans(xfer.PutEntries, p.ref, []xfer.Span{{Local: at(source, 3)}, {Local: at(source, 1), Offset: block}}))
		p.ok(batch.Put(at(source, 5), p.ref, 2*block))
		p.ok(batch.AddStrided(xfer.PutEntries, xfer.Strided{Local: source[8*block:], LocalStride: 2 * block, Remote: p.ref,
			Offset: 3 * block, RemoteStride: block, Length: block, Count: 2}))
		bases := []xfer.PageBase{{Local: source, Remote: p.ref}}
		p.ok(xfer.AddPages(batch, xfer.PutEntries, xfer.PageShape{Length: block}, bases, []int32{20, 22}, []int32{5, 6}))
		runtime.GC() // with the slices in the batch's pins alone
		p.ok(batch.Submit(p.ctx, xfer.SubmitOptions{}))
		var expected []byte
		for _, i := range []int{3, 1, 5, 8, 10, 20, 22} {
			expected = append(expected, at(pattern(4), i)...)
		}
		p.true(bytes.Equal(p.pool[:len(expected)], expected), "other puts")

		p.ok(batch.Reset())
		p.ok(batch.Get(at(target, 0), p.ref, 0))
		p.ok(batch.AddSpans(xfer.GetEntries, p.ref, []xfer.Span{{Local: target[block:], Offset: block}}))
		p.ok(batch.Submit(p.ctx, xfer.SubmitOptions{}))
		p.true(bytes.Equal(seen(target), expected), "other gets")
	})
}

func TestRegions(t *testing.T) {
	onDevice(t, func(p *pair) {
		memory := p.device(pattern(5))
		lent := must(p.owner.Lend(memory, xfer.RegionOptions{Access: xfer.Read | xfer.Write}))
		info := must(lent.Info())
		p.true(info.Kind == xfer.MemoryCUDA && info.Address == address(memory), "another region")
		ref, back := must(lent.Ref()), make([]byte, size)
		p.ok(p.ep.Get(p.ctx, back, ref, 0))
		p.true(bytes.Equal(back, pattern(5)), "another get")
		p.ok(p.ep.Put(p.ctx, pattern(6), ref, 0))
		p.true(bytes.Equal(seen(lent.Bytes()), pattern(6)), "another put")
		p.ok(lent.Close())
	})
}

// TestHostMemory: the library asks the driver, which knows nothing of it.
func TestHostMemory(t *testing.T) {
	onDevice(t, func(p *pair) {
		other := must(p.owner.Alloc(size, xfer.RegionOptions{}))
		host := xfer.DeviceMemory(address(other.Bytes()), size)
		copy(other.Bytes(), pattern(7))
		p.ok(p.ep.Put(p.ctx, host, p.ref, 0))
		p.true(bytes.Equal(p.pool, pattern(7)), "another put")
		copy(p.pool, pattern(8))
		p.ok(p.ep.Get(p.ctx, host, p.ref, 0))
		p.true(bytes.Equal(other.Bytes(), pattern(8)), "another get")
	})
}

func TestRefusals(t *testing.T) {
	onDevice(t, func(p *pair) {
		memory := p.device(pattern(9))
		_, atomic := p.owner.Lend(memory, xfer.RegionOptions{Access: xfer.Atomic})
		_, hint := p.owner.Lend(memory, xfer.RegionOptions{Kind: xfer.MemoryHost})
		batch := must(p.ep.Batch())
		defer batch.Close()
		p.ok(batch.Put(memory, p.ref, 0))
		for what, err := range map[string]error{
			"a put with Copy":     p.ep.Put(p.ctx, memory[:8], p.ref, 0, xfer.Copy),
			"a send with Copy":    p.ep.Send(p.ctx, memory[:8], 7, xfer.Copy),
			"a region of atomics": atomic,
			"a hint of the host":  hint,
			"a notification":      p.ep.Notify(p.ctx, memory[:8], 7),
			"one behind a batch":  batch.Submit(p.ctx, xfer.SubmitOptions{Notify: &xfer.Note{Data: memory[:8]}}),
		} {
			p.true(errors.Is(err, xfer.ErrMemKind), fmt.Sprintf("%s: %v", what, err))
		}
	})
}

// TestStall: it is told when copies do not go on, and when they do.
func TestStall(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	events := make(chan xfer.Event, 64)
	told := options("tcp")
	told.Events = events
	owner, engine := must(xfer.Open(options("tcp"))), must(xfer.Open(told))
	defer owner.Close()
	defer engine.Close()
	p := &pair{T: t, ctx: ctx, owner: owner, engine: engine}
	region := must(owner.Alloc(size, xfer.RegionOptions{Access: xfer.Write}))
	ref := must(region.Ref())
	ep := must(engine.Dial(must(owner.Listen("tcp://127.0.0.1:0", xfer.ListenOptions{})), xfer.DialOptions{}))
	fakecuda.Hold(true)
	defer fakecuda.Hold(false) // before the engines close
	put := must(ep.BeginPut(ctx, p.device(pattern(1)), ref, 0))
	stalled := stall(p, events)
	p.true(errors.Is(stalled.Err, xfer.ErrTimedOut) && stalled.Err.Origin == xfer.OriginCUDA, "another reason")
	p.true(stalled.Device == 0 && stalled.For >= time.Second, fmt.Sprint(stalled))
	fakecuda.Hold(false)
	p.ok(put.Wait())
	p.true(stall(p, events).Err == nil, "the device still stalls")
}

func stall(p *pair, events <-chan xfer.Event) *xfer.Stalled {
	for {
		select {
		case event := <-events:
			if stalled, is := event.(*xfer.Stalled); is {
				return stalled
			}
		case <-p.ctx.Done():
			p.Fatal("no stall is told")
		}
	}
}

func TestNoBytes(t *testing.T) {
	if len(xfer.DeviceMemory(0, 0)) != 0 || len(xfer.DeviceMemory(1<<20, 0)) != 0 {
		t.Fatal("there are bytes in none")
	}
}
