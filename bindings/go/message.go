// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

const (
	// Any is a mask by which no bit of a tag is looked at.
	Any uint64 = 0
	// Exact is a mask by which the whole tag is compared.
	Exact uint64 = 1<<64 - 1
)

// Message is what was received.
type Message struct {
	Sender ID
	Peer   *Endpoint // where to answer; nil if it is gone
	Tag    uint64
	Length uint64 // in full, also if the memory was shorter
	Data   []byte // of Take
}

// Send sends a message to the peer's application.
func (ep *Endpoint) Send(ctx context.Context, data []byte, tag uint64, options ...OpOption) error {
	_, err := ep.transfer(ctx, data, Ref{}, options, func(_ *C.xfer_ref_t, word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_send(ep.raw, unsafe.Pointer(unsafe.SliceData(data[:])), C.uint64_t(len(data)), C.uint64_t(tag), word,
			options)
	})
	return err
}

// Recv receives the first message whose tag equals tag in the bits of mask, into memory. from may be nil: from any peer.
// A message that is longer is [ErrTrunc], and the memory holds its beginning.
func (e *Engine) Recv(ctx context.Context, from *Endpoint, memory []byte, tag, mask uint64, options ...OpOption) (Message, error) {
	var pins runtime.Pinner
	defer pins.Unpin()
	pin(&pins, memory)
	return e.receive(ctx, from, memory, uint64(len(memory)), tag, mask, joined(options))
}

// Take receives a message of at most that many bytes in memory that it brings.
func (e *Engine) Take(ctx context.Context, from *Endpoint, most, tag, mask uint64, options ...OpOption) (Message, error) {
	o := joined(options)
	o.flags |= C.XFER_FLAG_TAKE
	return e.receive(ctx, from, nil, most, tag, mask, o)
}

func (e *Engine) receive(ctx context.Context, from *Endpoint, memory []byte, most, tag, mask uint64, o OpOption) (Message, error) {
	defer runtime.KeepAlive(e)
	defer runtime.KeepAlive(from)
	h, source, err := e.source(from)
	if err != nil {
		return Message{}, err
	}
	end, err := e.core.do(ctx, h, o, func(word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_recv(e.core.raw, source, unsafe.Pointer(unsafe.SliceData(memory[:])), C.uint64_t(most), C.uint64_t(tag),
			C.uint64_t(mask), word, options)
	})
	message := Message{Tag: end.tag, Length: end.bytes}
	if len(end.data) > 0 {
		message.Peer = e.core.find(end.index)
		message.Sender, message.Data = idAndRest(end.data)
	}
	return message, err
}

// source is the handle that a receive is of.
func (e *Engine) source(from *Endpoint) (*handle, *C.xfer_ep_t, error) {
	if from == nil {
		return &e.core.handle, nil, nil
	}
	if from.core != e.core { // which would not keep this engine from its end
		return nil, nil, refused(ErrInval, "the endpoint is another engine's")
	}
	return &from.handle, from.raw, nil
}

// MessageInfo is what is known of a message that waits.
type MessageInfo struct {
	Sender      ID
	Tag, Length uint64
}

// Peek looks at the message that a receive with the same arguments would get now; [ErrNotFound] if none waits.
func (e *Engine) Peek(from *Endpoint, tag, mask uint64) (MessageInfo, error) {
	defer runtime.KeepAlive(e)
	defer runtime.KeepAlive(from)
	h, source, err := e.source(from)
	if err != nil {
		return MessageInfo{}, err
	}
	var info C.xfer_message_info_t
	err = failed(h.use(func() C.xfer_status_t {
		return C.xfer_peek(e.core.raw, source, C.uint64_t(tag), C.uint64_t(mask), &info, C.uint32_t(unsafe.Sizeof(info)))
	}), nil)
	return MessageInfo{*(*ID)(unsafe.Pointer(&info.sender)), uint64(info.tag), uint64(info.length)}, err
}

// Notify raises a [Notification] at the peer, with a key and at most 1,024 bytes.
func (ep *Endpoint) Notify(ctx context.Context, data []byte, key uint64, options ...OpOption) error {
	_, err := ep.transfer(ctx, data, Ref{}, options, func(_ *C.xfer_ref_t, word C.uint64_t, options *C.xfer_op_options_t) C.xfer_status_t {
		return C.xfer_notify(ep.raw, unsafe.Pointer(unsafe.SliceData(data[:])), C.uint64_t(len(data)), C.uint64_t(key), word,
			options)
	})
	return err
}
