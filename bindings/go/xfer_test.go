// SPDX-License-Identifier: Apache-2.0

//go:build go1.21

package xfer

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const local, network = "tcp,shm", "tcp"

func (c *client) fails(err error, want ...error) *Error {
	c.Helper()
	for _, expected := range want {
		if !errors.Is(err, expected) {
			c.Fatalf("%v; expected %v", err, expected)
		}
	}
	var detail *Error
	errors.As(err, &detail)
	return detail
}

func (c *client) send(tag uint64, data []byte) []byte {
	c.ok(c.ep.Send(c.patient(), data, tag, false))
	return must(c.engine.Take(c.patient(), size, answer, Exact, nil)).Data
}

func TestEchoPutGet(t *testing.T) {
	c := newClient(t, local)
	sent, back := make([]byte, 1<<20), make([]byte, 1<<20)
	must(rand.Read(sent))
	c.ok(c.ep.Put(c.patient(), sent, c.ref, 4096))
	c.ok(c.ep.Get(c.patient(), back, c.ref, 4096))
	if !bytes.Equal(sent, back) {
		t.Error("the bytes differ")
	}
	c.ok(c.ep.Put(c.patient(), nil, c.ref, 0))
	c.ok(c.ep.Get(c.patient(), nil, c.ref, 0))
	c.fails(c.ep.Put(c.patient(), sent, c.ref, size-3), ERANGE)
}

func TestLookupMissing(t *testing.T) {
	c := newClient(t, local)
	_, _, err := c.ep.Lookup(c.patient(), "nothing", false)
	c.fails(err, ENOTFOUND)
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, _, err = c.ep.Lookup(short, "nothing", true)
	c.fails(err, ETIMEDOUT, context.DeadlineExceeded)
}

func TestMessages(t *testing.T) {
	c := newClient(t, local)
	long, into := make([]byte, 300_000), make([]byte, 400_000)
	must(rand.Read(long))
	c.ok(c.ep.Send(c.patient(), long, echo, true))
	message := must(c.engine.Recv(c.patient(), into, answer, Exact, c.ep))
	if message.Peer != c.ep || !bytes.Equal(into[:message.Length], long) {
		t.Error("another message")
	}
	if string(c.send(echo, []byte("short"))) != "short" {
		t.Error("another message")
	}
	other := must(Open(nil, map[string]string{"transports": local}))
	caller := must(other.Dial(must(c.engine.Listen("tcp://127.0.0.1:0"))))
	c.ok(caller.Send(c.patient(), nil, echo, false))
	from := must(c.engine.Take(c.patient(), 0, echo, Exact, nil)).Peer
	c.ok(other.Close())
	for _, kind := range []string{"PEER", "PEER_UP", "PEER_DOWN"} {
		if from == nil || c.noticed(kind).Peer != from {
			t.Error("another endpoint: ", kind)
		}
	}
	c.ok(from.Close())
}

func TestNotify(t *testing.T) {
	c := newClient(t, local)
	c.ok(c.ep.Notify(c.patient(), []byte("abc"), 40))
	n := c.noticed("NOTIFY")
	if string(n.Data) != "abc" || n.Tag != 41 || n.Peer != c.ep {
		t.Errorf("%+v", n)
	}
}

func TestAtomics(t *testing.T) {
	c := newClient(t, local)
	for i := uint64(0); i < 3; i++ {
		if before := must(c.ep.Add(c.patient(), c.ref, 8, 5)); before != 5*i {
			t.Error(before)
		}
	}
	if before := must(c.ep.CompareAndSwap(c.patient(), c.ref, 8, 15, 1)); before != 15 {
		t.Error(before)
	}
	_, err := c.ep.Add(c.patient(), c.ref, 4, 1)
	c.fails(err, EINVAL)
}

func TestBatchResubmitted(t *testing.T) {
	c := newClient(t, local)
	batch, page, back := must(c.ep.Batch()), make([]byte, 4096), make([]byte, 4096)
	for i := uint64(0); i < 10; i++ {
		c.ok(batch.Put(page, c.ref, i*4096))
	}
	c.fails(batch.Put(page, c.ref, size), ERANGE)
	for value := byte(1); value <= 3; value++ {
		copy(page, bytes.Repeat([]byte{value}, len(page)))
		c.ok(batch.Submit(c.patient(), &Note{70, []byte("layer")}))
		c.ok(c.ep.Get(c.patient(), back, c.ref, 9*4096))
		if n := c.noticed("NOTIFY"); n.Tag != 71 || string(n.Data) != "layer" || !bytes.Equal(page, back) {
			t.Errorf("%+v", n)
		}
	}
	for _, status := range must(batch.Entries()) {
		if status != 0 {
			t.Error(status)
		}
	}
	c.ok(batch.Close())
}

func TestThousandAtOnce(t *testing.T) {
	c := newClient(t, local)
	ctx := c.patient()
	all := func(operation func(i uint64) error) {
		errs := make(chan error, 1000)
		for i := uint64(0); i < 1000; i++ {
			go func(i uint64) { errs <- operation(i) }(i)
		}
		for i := 0; i < cap(errs); i++ {
			c.ok(<-errs)
		}
	}
	all(func(i uint64) error {
		return c.ep.Put(ctx, bytes.Repeat(binary.LittleEndian.AppendUint64(nil, i), 128), c.ref, 1024*i)
	})
	all(func(i uint64) error {
		back := make([]byte, 1024)
		if err := c.ep.Get(ctx, back, c.ref, 1024*i); err != nil {
			return err
		}
		if binary.LittleEndian.Uint64(back[1016:]) != i {
			return errors.New("the bytes differ")
		}
		_, err := c.ep.Add(ctx, c.ref, size-8, 1)
		return err
	})
	if sum := must(c.ep.Add(ctx, c.ref, size-8, 0)); sum != 1000 {
		t.Error(sum)
	}
	c.ok(c.ep.Flush(ctx))
}

func TestBufferKeptAlive(t *testing.T) {
	c := newClient(t, network)
	var all sync.WaitGroup
	for i := 0; i < 50; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			c.ok(c.ep.Put(c.patient(), bytes.Repeat([]byte{byte(i)}, 100_000), c.ref, uint64(i)*100_000))
		}(i)
		runtime.GC()
	}
	all.Wait()
	back := make([]byte, 100_000)
	for i := 0; i < 50; i++ {
		c.ok(c.ep.Get(c.patient(), back, c.ref, uint64(i)*100_000))
		if bytes.Count(back, []byte{byte(i)}) != len(back) {
			t.Error("the bytes differ")
		}
	}
}

func TestRegionGone(t *testing.T) {
	c := newClient(t, local)
	c.send(renew, nil)
	if gone := c.noticed("REGION_GONE"); !bytes.Equal(gone.Data, c.ref[:]) {
		t.Error("another ref")
	}
	c.fails(c.ep.Put(c.patient(), []byte("late"), c.ref, 0), ESTALE)
	ref, _, err := c.ep.Lookup(c.patient(), "pool", false)
	c.ok(err)
	c.ok(c.ep.Put(c.patient(), []byte("new"), ref, 0))
}

func TestCancelKeepsBuffer(t *testing.T) {
	c := newClient(t, network)
	c.stop()
	ctx, cancel := context.WithCancel(context.Background())
	began := time.Now()
	time.AfterFunc(50*time.Millisecond, cancel)
	err := c.ep.Put(ctx, make([]byte, size), c.ref, 0)
	if c.fails(err, ECANCELED, context.Canceled).Fenced {
		t.Error("the peer is stopped, and can have confirmed nothing")
	}
	// The library waits 100 ms for the owner's word: who returns before has not waited for the event.
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Error("it returned before its event: ", took)
	}
	c.engine.table.Lock()
	if len(c.engine.waiters) != 2 { // the ends of the engine and of the endpoint
		t.Error(len(c.engine.waiters))
	}
	c.engine.table.Unlock()
	c.goOn()
	c.ok(c.ep.Put(c.patient(), []byte("after"), c.ref, 0))
}

func TestCancelOfWhatWaits(t *testing.T) {
	c := newClient(t, local)
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 1000)
	for i := 0; i < cap(errs); i++ {
		go func() {
			_, err := c.engine.Recv(ctx, make([]byte, 8), 99, Exact, nil)
			errs <- err
		}()
	}
	go func() {
		_, _, err := c.ep.Lookup(ctx, "later", true)
		errs <- err
	}()
	time.Sleep(20 * time.Millisecond)
	cancel()
	for i := 0; i < cap(errs)+1; i++ {
		c.fails(<-errs, context.Canceled)
	}
}

func TestDeadlineExpires(t *testing.T) {
	c := newClient(t, network)
	c.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	err := c.ep.Put(ctx, make([]byte, size), c.ref, 0)
	if c.fails(err, ETIMEDOUT, context.DeadlineExceeded).Fenced {
		t.Error("the peer is stopped, and can have confirmed nothing")
	}
}

func TestPeerKilled(t *testing.T) {
	c := newClient(t, network)
	c.stop()
	time.AfterFunc(50*time.Millisecond, func() { must(0, c.peer.Process.Kill()) })
	if c.fails(c.ep.Put(c.patient(), make([]byte, size), c.ref, 0), EPEERLOST).Fenced {
		t.Error("the peer is gone, and can have confirmed nothing")
	}
	c.noticed("PEER_DOWN")
	_, uri := startPeer(t, c.transports)
	c.ok(c.ep.AddAddress(uri))
	c.fails(c.ep.Put(c.patient(), []byte("old"), c.ref, 0), ESTALE)
	ref, _, err := c.ep.Lookup(c.patient(), "pool", false)
	c.ok(err)
	c.ok(c.ep.Put(c.patient(), []byte("new"), ref, 0))
}

func TestNoListener(t *testing.T) {
	c := newClient(t, network)
	nobody := must(c.engine.Dial("tcp://127.0.0.1:9"))
	if err := nobody.Connect(c.patient()); !strings.Contains(c.fails(err, EUNREACHABLE).Text, "127.0.0.1:9") {
		t.Error(err)
	}
}

func TestErrorDetail(t *testing.T) {
	c := newClient(t, network)
	_, err := c.engine.Listen(must(c.engine.Listen("tcp://127.0.0.1:0")))
	if detail := c.fails(err, EADDRINUSE); detail.NativeCode == 0 || detail.Text == "" {
		t.Errorf("%+v", detail)
	}
}

func TestCloseWithInflight(t *testing.T) {
	c := newClient(t, network)
	c.stop()
	errs := make(chan error, 2)
	go func() { errs <- c.ep.Put(context.Background(), make([]byte, size), c.ref, 0) }()
	go func() {
		_, err := c.engine.Take(context.Background(), 8, 97, Exact, nil)
		errs <- err
	}()
	time.Sleep(500 * time.Millisecond) // both have begun by then
	c.ok(c.engine.Close())
	for i := 0; i < cap(errs); i++ {
		c.fails(<-errs, ECANCELED)
	}
	c.fails(c.ep.Put(c.patient(), []byte("late"), c.ref, 0), ECLOSED)
	c.ok(c.ep.Close())
}

func TestSubmitAfterClose(t *testing.T) {
	c := newClient(t, local)
	region := must(c.engine.Lend(make([]byte, 4096), "", 0, nil))
	for i := 0; i < 2; i++ {
		c.ok(region.Close())
		c.ok(c.ep.Close())
		c.engine.table.Lock()
		if len(c.engine.waiters) != 1 || len(c.engine.handles) != 0 { // the end of the engine
			t.Error("closed before the event came")
		}
		c.engine.table.Unlock()
	}
	c.fails(c.ep.Put(c.patient(), []byte("late"), c.ref, 0), ECLOSED)
}
