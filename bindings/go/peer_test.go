// SPDX-License-Identifier: Apache-2.0

//go:build go1.21

package xfer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	size                = 16 << 20
	patience            = 20 * time.Second
	echo, renew, answer = 1, 2, 3 // tags of what the peer is asked, and of its answers
)

// TestMain is the peer as well: the same program, in another process.
func TestMain(m *testing.M) {
	if transports := os.Getenv("XFER_TEST_PEER"); transports != "" {
		servePeer(transports)
		return
	}
	os.Exit(m.Run())
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}

// servePeer lends a region, answers messages and notifications, until its standard input ends.
func servePeer(transports string) {
	forever := context.Background()
	engine := must(Open(func(n Notice) {
		if n.Kind == "XFER_EVENT_NOTIFY" && n.Peer != nil {
			go n.Peer.Notify(forever, n.Data, n.Tag+1)
		}
	}, map[string]string{"transports": transports}))
	memory := make([]byte, size)
	lend := func() *Region {
		return must(engine.Lend(memory, "pool", Read|Write|Atomic, []byte("bytes")))
	}
	region := lend()
	fmt.Println(must(engine.Listen("tcp://127.0.0.1:0")))
	go func() {
		for {
			message, err := engine.Take(forever, size, 0, Any, nil)
			if err != nil {
				return
			}
			if message.Tag == renew {
				must(0, region.Close())
				region = lend()
			}
			if message.Peer != nil {
				go message.Peer.Send(forever, message.Data, answer, false)
			}
		}
	}()
	io.Copy(io.Discard, os.Stdin)
	must(0, engine.Close())
}

// start a peer; it ends with the test.
func startPeer(t *testing.T, transports string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "XFER_TEST_PEER="+transports)
	cmd.Stderr = os.Stderr
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	must(0, cmd.Start())
	uri := must(bufio.NewReader(out).ReadString('\n'))
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Signal(syscall.SIGCONT)
		timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer timer.Stop()
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "killed") {
			t.Error(err)
		}
	})
	return cmd, strings.TrimSpace(uri)
}

// client is an engine with an endpoint to a peer of another process.
type client struct {
	*testing.T
	transports string
	engine     *Engine
	ep         *Endpoint
	ref        Ref
	peer       *exec.Cmd
	notices    chan Notice
}

func newClient(t *testing.T, transports string) *client {
	c := &client{T: t, transports: transports, notices: make(chan Notice, 4096)}
	c.engine = must(Open(func(n Notice) { c.notices <- n }, map[string]string{"transports": transports}))
	t.Cleanup(func() {
		must(0, c.engine.Close())
		must(0, c.engine.Close())
	})
	peer, uri := startPeer(t, transports)
	c.peer, c.ep = peer, must(c.engine.Dial(uri))
	ref, blob, err := c.ep.Lookup(c.patient(), "pool", false)
	if must(0, err); string(blob) != "bytes" {
		t.Fatalf("blob %q", blob)
	}
	c.ref = ref
	return c
}

func (c *client) patient() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	c.Cleanup(cancel)
	return ctx
}

func (c *client) stop() {
	must(0, c.peer.Process.Signal(syscall.SIGSTOP))
}

func (c *client) goOn() {
	must(0, c.peer.Process.Signal(syscall.SIGCONT))
}

func (c *client) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *client) noticed(kind string) Notice {
	c.Helper()
	limit := time.After(patience)
	for {
		select {
		case n := <-c.notices:
			if n.Kind == "XFER_EVENT_"+kind {
				return n
			}
		case <-limit:
			c.Fatal("no event came: ", kind)
		}
	}
}
