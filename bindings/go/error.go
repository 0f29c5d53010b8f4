// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdlib.h>
#include <xfer/text.h>
*/
import "C"

import (
	"context"
	"errors"
	"strings"
	"syscall"
)

// Origin says where the native code of an error comes from.
type Origin uint32

// The origins.
const (
	OriginNone  Origin = C.XFER_ORIGIN_NONE
	OriginOS    Origin = C.XFER_ORIGIN_OS    // a syscall.Errno, which errors.Is finds as well
	OriginUV    Origin = C.XFER_ORIGIN_UV    // of libuv
	OriginCares Origin = C.XFER_ORIGIN_CARES // of c-ares
	OriginVerbs Origin = C.XFER_ORIGIN_VERBS
	OriginCUDA  Origin = C.XFER_ORIGIN_CUDA
	OriginPeer  Origin = C.XFER_ORIGIN_PEER // the peer decided the status
)

// Error is a status with what is known of it. errors.Is finds in it the status, the errno if the system refused, and
// context.Canceled or context.DeadlineExceeded if a context ended the operation.
type Error struct {
	Status     Status
	Text       string // one sentence
	Origin     Origin
	NativeCode int32
	Fenced     bool   // nothing of the operation can land any more; else the range is undefined
	Bytes      uint64 // known to have moved
	Index      uint64 // of a batch: its first failed entry
	Cause      error  // of the context, if that ended the operation
}

func (e *Error) Error() string {
	text := "xfer: " + e.Status.Error() + ": " + e.Text
	if e.Cause != nil {
		text += " (" + e.Cause.Error() + ")"
	}
	return text
}

// Unwrap is for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	within := []error{e.Status}
	if e.Origin == OriginOS {
		within = append(within, syscall.Errno(e.NativeCode))
	}
	if e.Cause != nil {
		within = append(within, e.Cause)
	}
	return within
}

// NativeText is what origin and native code mean, such as "Connection refused".
func (e *Error) NativeText() string {
	var text [C.XFER_NATIVE_TEXT_SIZE]C.char
	C.xfer_native_text(C.uint32_t(e.Origin), C.int32_t(e.NativeCode), &text[0], C.uint64_t(len(text)))
	return C.GoString(&text[0])
}

// failed is nil, or what a call has answered at once.
func failed(status C.xfer_status_t, detail *C.xfer_error_t) error {
	if status == C.XFER_OK {
		return nil
	}
	err := &Error{Status: Status(status), Text: Status(status).Text(), Fenced: true}
	if detail != nil && detail.status == C.int32_t(status) {
		err.Text = C.GoString(&detail.message[0])
		err.Origin, err.NativeCode = Origin(detail.origin), int32(detail.native_code)
	}
	return err
}

// refused is an error of this binding's own checks.
func refused(status Status, text string) error {
	return &Error{Status: status, Text: text, Fenced: true}
}

// cText is a text as C reads it, which is up to a NUL; the caller frees it.
func cText(text string) (*C.char, error) {
	if strings.Contains(text, "\x00") {
		return nil, refused(ErrInval, "a text has a NUL")
	}
	return C.CString(text), nil
}

// ended is nil while the context has not ended.
func ended(ctx context.Context) error {
	cause := ctx.Err()
	if cause == nil {
		return nil
	}
	err := &Error{Status: ErrCanceled, Text: "the context had ended before", Fenced: true, Cause: cause}
	if errors.Is(cause, context.DeadlineExceeded) {
		err.Status = ErrTimedOut
	}
	return err
}

// failure is nil, or what an event says.
func (e *event) failure() *Error {
	if e.status == C.XFER_OK {
		return nil
	}
	err := &Error{Status: Status(e.status), Text: Status(e.status).Text(), Origin: Origin(e.origin),
		NativeCode: e.nativeCode, Fenced: e.flags&C.XFER_MAYBE_APPLIED == 0, Bytes: e.bytes}
	switch e.kind {
	case C.XFER_EVENT_PUT, C.XFER_EVENT_GET, C.XFER_EVENT_ATOMIC, C.XFER_EVENT_SEND, C.XFER_EVENT_NOTIFIED,
		C.XFER_EVENT_FLUSH, C.XFER_EVENT_LOOKUP, C.XFER_EVENT_PROBE, C.XFER_EVENT_CONNECT, C.XFER_EVENT_COUNTER,
		C.XFER_EVENT_PEER_DOWN, C.XFER_EVENT_STALLED:
		if len(e.data) > 0 { // of these it is a sentence
			err.Text = string(e.data)
		}
	case C.XFER_EVENT_BATCH:
		err.Index = e.index
	}
	return err
}

// error is nil, or the failure, as an error.
func (e *event) error() error {
	if err := e.failure(); err != nil {
		return err
	}
	return nil
}
