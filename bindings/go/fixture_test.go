// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	size     = 4 << 20
	patience = 20 * time.Second
)

// TestMain is also what the tests start as another process.
func TestMain(m *testing.M) {
	switch role := os.Getenv("XFER_TEST_ROLE"); role {
	case "":
	case "drop":
		leaveOpen()
		return
	default:
		servePeer(role)
		return
	}
	code := m.Run()
	if left := drains(); left != "" && code == 0 {
		fmt.Println("a goroutine is left:\n" + left)
		code = 1
	}
	os.Exit(code)
}

// drains is the stack of a goroutine of an engine, if one is left when the collector had time to end it.
func drains() string {
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		runtime.GC()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		at := bytes.Index(stacks, []byte("xfer.(*core).drain"))
		if at < 0 {
			return ""
		}
		if time.Now().After(end) {
			return string(stacks)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// place is where a scenario runs: on one path.
type place struct {
	*testing.T
	path string // "tcp", "local" or "loopback"
}

func (p *place) transports() string {
	return map[string]string{"tcp": "tcp", "local": "tcp,shm", "loopback": "loopback,tcp"}[p.path]
}

func (p *place) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// fails says that an error is all that was wanted, and returns its detail.
func (p *place) fails(err error, want ...error) *Error {
	p.Helper()
	for _, expected := range want {
		if !errors.Is(err, expected) {
			p.Fatalf("%v; expected %v", err, expected)
		}
	}
	var detail *Error
	if !errors.As(err, &detail) {
		p.Fatalf("%v is no *Error", err)
	}
	return detail
}

func (p *place) true(is bool, what ...any) {
	p.Helper()
	if !is {
		p.Fatal(append([]any{"not so:"}, what...)...)
	}
}

func (p *place) patient() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition.
func (p *place) eventually(what string, is func() bool) {
	p.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.Fatal("it did not come: ", what)
		}
	}
}

// soon is what a channel has.
func soon[T any](p *place, from <-chan T) T {
	p.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		p.Fatal("it did not come")
	}
	panic("not reached")
}

// begun runs a call in a goroutine, and is where its error comes.
func begun(call func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	return done
}

// told is the next event of that type; others are passed over.
func told[T Event](p *place, events <-chan Event) T {
	p.Helper()
	for {
		if event, ok := soon(p, events).(T); ok {
			return event
		}
	}
}

// open opens an engine on the path, with more options by name and text in pairs.
func (p *place) open(more ...string) (*Engine, chan Event) {
	p.Helper()
	set := map[string]string{"transports": p.transports()}
	for i := 0; i < len(more); i += 2 {
		set[more[i]] = more[i+1]
	}
	events := make(chan Event, 8192)
	e := must(Open(Options{Set: set, Events: events}))
	p.Cleanup(func() { p.ok(e.Close()) })
	return e, events
}

// pair is an engine with an endpoint to an owner, which lends memory. On loopback they are the same.
type pair struct {
	*place
	owner, engine       *Engine
	ownerEvents, events chan Event
	uri                 string
	ep                  *Endpoint
	region              *Region
	ref                 Ref
	proxy               *proxy
}

func (p *place) pair(more ...string) *pair { return p.pairThrough(nil, more...) }

// proxied has the connection pass a proxy, where it passes TCP.
func (p *place) proxied(more ...string) *pair {
	if p.path != "tcp" {
		return p.pair(more...)
	}
	return p.pairThrough(newProxy(p), more...)
}

func (p *place) pairThrough(between *proxy, more ...string) *pair {
	p.Helper()
	c := &pair{place: p, proxy: between}
	c.owner, c.ownerEvents = p.open(more...)
	c.engine, c.events = c.owner, c.ownerEvents
	c.region = must(c.owner.Lend(make([]byte, size), RegionOptions{Name: "pool", Access: Read | Write | Atomic,
		Blob: []byte("bytes")}))
	c.uri = must(c.owner.Listen("tcp://127.0.0.1:0", ListenOptions{User: 17}))
	if p.path == "loopback" {
		c.ep = must(c.engine.Dial("", DialOptions{Peer: must(c.owner.ID())}))
	} else {
		c.engine, c.events = p.open(more...)
		dialed := c.uri
		if between != nil {
			dialed = between.to(c.uri)
		}
		c.ep = must(c.engine.Dial(dialed, DialOptions{}))
	}
	c.ref = c.look("pool")
	return c
}

func (c *pair) look(name string) Ref {
	c.Helper()
	ref, _, err := c.ep.Lookup(c.patient(), name, Wait)
	c.ok(err)
	return ref
}

// stale is a ref that was looked up, and whose region is closed.
func (c *pair) stale() Ref {
	c.Helper()
	brief := must(c.owner.Lend(make([]byte, size), RegionOptions{Name: "gone", Access: Read | Write}))
	ref := c.look("gone")
	c.ok(brief.Close())
	return ref
}

func (c *pair) lent() []byte { return c.region.Bytes() }

// back is an endpoint of the owner to the engine.
func (c *pair) back() *Endpoint {
	c.Helper()
	if c.owner == c.engine {
		return c.ep
	}
	return told[*Peer](c.place, c.ownerEvents).Endpoint
}

// stuck has operations that begin from here on stay under way, until free; begin begins one. Over TCP it is a put that is
// held on its way; on one host, where nothing holds a put, a message that nobody receives.
func (c *pair) stuck() (begin func(ctx context.Context, options ...OpOption) error, free func()) {
	data := bytes.Repeat([]byte{7}, size)
	if c.proxy == nil {
		return func(ctx context.Context, options ...OpOption) error {
				return c.ep.Send(ctx, data, 77, append(options, Sync)...)
			}, func() {
				go c.owner.Recv(context.Background(), nil, make([]byte, size), 77, Exact)
			}
	}
	c.proxy.hold()
	return func(ctx context.Context, options ...OpOption) error { return c.ep.Put(ctx, data, c.ref, 0, options...) },
		c.proxy.free
}

// kind are the counters of what stuck begins.
func (c *pair) kind() OpStats {
	stats := must(c.engine.Stats())
	if c.proxy == nil {
		return stats.Send
	}
	return stats.Put
}

func (c *pair) submitted(count uint64) {
	c.Helper()
	c.eventually("a submit", func() bool { return c.kind().Submitted >= count })
}

// waiting is how many operations of an engine have their event to come.
func waiting(e *Engine) int {
	e.core.table.Lock()
	defer e.core.table.Unlock()
	return len(e.core.waiters)
}

// proxy passes TCP on, holds back what goes to the server, and changes a byte of it.
type proxy struct {
	*place
	listener net.Listener
	mutex    sync.Mutex
	gate     chan struct{} // closed when it is open
	flipAt   atomic.Int64  // one byte past so many of one connection; 0: none
	all      sync.WaitGroup
}

func newProxy(p *place) *proxy {
	x := &proxy{place: p, listener: must(net.Listen("tcp", "127.0.0.1:0")), gate: make(chan struct{})}
	close(x.gate)
	return x
}

// to starts it, and returns where to dial. It ends with the test.
func (x *proxy) to(uri string) string {
	var conns sync.Map
	x.Cleanup(func() {
		x.listener.Close()
		x.free()
		conns.Range(func(conn, _ any) bool { return conn.(net.Conn).Close() == nil || true })
		x.all.Wait()
	})
	x.all.Add(1)
	go func() {
		defer x.all.Done()
		for {
			client, err := x.listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", strings.TrimPrefix(uri, "tcp://"))
			if err != nil {
				client.Close()
				continue
			}
			conns.Store(client, nil)
			conns.Store(server, nil)
			x.all.Add(2)
			go x.forward(client, server, true)
			go x.forward(server, client, false)
		}
	}()
	return "tcp://" + x.listener.Addr().String()
}

func (x *proxy) forward(from, to net.Conn, held bool) {
	defer x.all.Done()
	defer to.Close()
	total, data := int64(0), make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		if err != nil {
			return
		}
		total += int64(n)
		if at := x.flipAt.Load(); held && at != 0 && total > at && x.flipAt.CompareAndSwap(at, 0) {
			data[n/2] ^= 4
		}
		x.mutex.Lock()
		gate := x.gate
		x.mutex.Unlock()
		if held {
			<-gate
		}
		if _, err := to.Write(data[:n]); err != nil {
			return
		}
	}
}

func (x *proxy) hold() {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.gate = make(chan struct{})
}

func (x *proxy) free() {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	select {
	case <-x.gate:
	default:
		close(x.gate)
	}
}

// servePeer lends memory in another process, until its standard input ends.
func servePeer(transports string) {
	engine := must(Open(Options{Set: map[string]string{"transports": transports}}))
	must(engine.Lend(make([]byte, size), RegionOptions{Name: "pool", Access: Read | Write}))
	fmt.Println(must(engine.Listen("tcp://127.0.0.1:0", ListenOptions{})))
	io.Copy(io.Discard, os.Stdin)
	must(0, engine.Close())
}

// started is this program in another role; it ends with the test.
func (p *place) started(role string) (*exec.Cmd, io.Reader) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "XFER_TEST_ROLE="+role)
	cmd.Stderr = os.Stderr
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	must(0, cmd.Start())
	p.Cleanup(func() {
		in.Close()
		timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
			p.Error(err)
		}
	})
	return cmd, out
}
