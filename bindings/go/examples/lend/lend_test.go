// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"xfer"
)

const patience = 20 * time.Second

func TestLend(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	content := make([]byte, 3<<20)
	rand.Read(content)
	l, err := newLender("tcp://127.0.0.1:0", time.Hour)
	ok(err)
	ok(l.add("a.bin", content))
	server := httptest.NewServer(l)
	defer func() {
		server.Close()
		ok(l.Close())
	}()
	engine, err := xfer.Open(xfer.Options{})
	ok(err)
	defer func() { ok(engine.Close()) }()

	got, err := fetch(ctx, engine, server.URL+"/a.bin")
	ok(err)
	if !bytes.Equal(got, content) {
		t.Error("the bytes differ")
	}
	if _, err := fetch(ctx, engine, server.URL+"/b.bin"); err == nil {
		t.Error("what is not there was lent")
	}

	a, err := borrow(ctx, engine, server.URL+"/a.bin")
	ok(err)
	b, err := borrow(ctx, engine, server.URL+"/a.bin")
	ok(err)
	defer b.Close()
	memory := make([]byte, 100)
	ok(a.read(ctx, memory, 1000))
	if !bytes.Equal(memory, content[1000:1100]) {
		t.Error("the bytes differ")
	}
	a.held.Close() // disconnects, and still has the ref
	for err = nil; err == nil; {
		err = a.read(ctx, memory, 0)
	}
	if !errors.Is(err, xfer.ErrRevoked) {
		t.Error(err)
	}
	ok(a.ep.Close())
	ok(b.read(ctx, memory, 0)) // a loan is its own
}

// A loan outlives its lease while the borrower is there.
func TestRenewal(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for longer than a lease")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const lease = 6 * time.Second
	l, err := newLender("tcp://127.0.0.1:0", lease)
	if err != nil {
		t.Fatal(err)
	}
	l.renewal = 50 * time.Millisecond // far less, for a busy machine
	if err := l.add("a", make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(l)
	engine, err := xfer.Open(xfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	loan, err := borrow(ctx, engine, server.URL+"/a")
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < lease+time.Second; time.Sleep(100 * time.Millisecond) {
		if err := loan.read(ctx, make([]byte, 64), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := loan.Close(); err != nil {
		t.Error(err)
	}
	engine.Close()
	server.Close()
	l.Close()
}
