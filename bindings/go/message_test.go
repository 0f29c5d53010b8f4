// SPDX-License-Identifier: Apache-2.0

package xfer

import (
	"bytes"
	"context"
	"fmt"
)

func messageTags(p *place) {
	c := p.pair()
	ctx := c.patient()
	for i := range 10 {
		for tag := range uint64(3) {
			c.ok(c.ep.Send(ctx, fmt.Appendf(nil, "%d of %d", i, tag), 0x100+tag))
		}
	}
	c.eventually("the first", func() bool {
		_, err := c.owner.Peek(nil, 0x101, Exact)
		return err == nil
	})
	info := must(c.owner.Peek(nil, 0x101, Exact))
	c.true(info.Tag == 0x101 && info.Length == 6 && info.Sender == must(c.engine.ID()), info)
	into := make([]byte, 64)
	for i := range 10 {
		for _, tag := range []uint64{2, 0} {
			message := must(c.owner.Recv(ctx, nil, into, 0x100+tag, Exact))
			c.true(string(into[:message.Length]) == fmt.Sprintf("%d of %d", i, tag), "in order within a tag")
		}
	}
	for i := range 10 {
		message := must(c.owner.Take(ctx, nil, 64, 0x1ff, 0x100))
		c.true(string(message.Data) == fmt.Sprintf("%d of 1", i) && message.Tag == 0x101, "by the mask")
		c.true(message.Sender == must(c.engine.ID()) && message.Peer != nil, "it says who sent it")
		if i == 0 {
			c.ok(message.Peer.Send(ctx, []byte("answer"), 5))
			c.true(string(must(c.engine.Take(ctx, c.ep, 64, 5, Exact)).Data) == "answer")
		}
	}
	_, err := c.owner.Peek(nil, 0, Any)
	c.fails(err, ErrNotFound)
}

func messageTruncated(p *place) {
	c := p.pair()
	for _, length := range []int{100, 300_000} {
		memory := make([]byte, 80)
		sent := begun(func() error { return c.ep.Send(c.patient(), bytes.Repeat([]byte{6}, length), 1) })
		message, err := c.owner.Recv(c.patient(), nil, memory[:64], 1, Exact)
		c.fails(err, ErrTrunc)
		c.true(message.Length == uint64(length), message.Length)
		c.true(bytes.Count(memory[:64], []byte{6}) == 64 && bytes.Count(memory[64:], []byte{0}) == 16, "no byte past it")
		if err := soon(p, sent); err != nil {
			c.fails(err, ErrTrunc)
		}
	}
}

func messageUnknownLength(p *place) {
	c := p.pair()
	for _, length := range []int{0, 1, 4088, 4089, 1 << 20} {
		data := bytes.Repeat([]byte{8}, length)
		sent := begun(func() error { return c.ep.Send(c.patient(), data, 1) })
		message := must(c.owner.Take(c.patient(), nil, 1<<20, 1, Exact))
		c.true(bytes.Equal(message.Data, data) && message.Length == uint64(length), length)
		c.ok(soon(p, sent))
	}
	go c.ep.Send(c.patient(), make([]byte, 100), 1)
	message, err := c.owner.Take(c.patient(), nil, 50, 1, Exact)
	c.fails(err, ErrTrunc)
	c.true(message.Length == 100 && len(message.Data) <= 50, message)
}

func messageCanceledLate(p *place) {
	c := p.proxied()
	back := c.back()
	for round := range 5 {
		sent := begun(func() error { return c.ep.Send(c.patient(), bytes.Repeat([]byte{4}, size), 1) })
		c.eventually("it waits", func() bool {
			_, err := c.owner.Peek(nil, 1, Exact)
			return err == nil
		})
		if c.proxy != nil {
			c.proxy.hold() // it matches, and then its bytes do not come
		}
		into := make([]byte, size)
		ctx, cancel := context.WithCancel(context.Background())
		from := back
		if round%2 == 0 {
			from = nil
		}
		received := begun(func() error {
			_, err := c.owner.Recv(ctx, from, into, 1, Exact)
			return err
		})
		c.eventually("it was begun", func() bool { return must(c.owner.Stats()).Recv.Submitted == uint64(round+1) })
		cancel()
		err := soon(p, received)
		if c.proxy != nil {
			c.true(err != nil, "its bytes were held")
		}
		copy(into, bytes.Repeat([]byte{1}, size))
		if c.proxy != nil {
			c.proxy.free()
		}
		other := soon(p, sent)
		c.true((err == nil) == (other == nil), "both ends agree: ", err, other)
		if err != nil {
			c.fails(err, ErrCanceled, context.Canceled)
			c.fails(other, ErrCanceled)
			c.true(bytes.Count(into, []byte{1}) == size, "nothing comes after the event")
		}
	}
}

func notifyBytes(p *place) {
	c := p.pair()
	data := bytes.Repeat([]byte("notified"), 8)
	for key := range uint64(20) {
		data[0] = byte(key)
		c.ok(c.ep.Notify(c.patient(), data, key))
	}
	for key := range uint64(20) {
		data[0] = byte(key)
		n := told[*Notification](p, c.ownerEvents)
		c.true(n.Key == key && bytes.Equal(n.Data, data) && n.Endpoint != nil, n)
	}
	c.fails(c.ep.Notify(c.patient(), make([]byte, 1025), 1), ErrTooBig)
}
