// SPDX-License-Identifier: Apache-2.0

//go:build go1.21

package xfer

// #include <xfer/text.h>
import "C"

import (
	"context"
	"unsafe"
)

// Status is a number that the library answers with. Each is an error by itself: compare by errors.Is.
type Status int32

// The statuses, as xfer.h explains them.
const (
	EINVAL       Status = C.XFER_EINVAL
	EBADHANDLE   Status = C.XFER_EBADHANDLE
	E2BIG        Status = C.XFER_E2BIG
	ENOMEM       Status = C.XFER_ENOMEM
	EAGAIN       Status = C.XFER_EAGAIN
	ETOOBIG      Status = C.XFER_ETOOBIG
	EDEGRADED    Status = C.XFER_EDEGRADED
	EBUSY        Status = C.XFER_EBUSY
	ECLOSED      Status = C.XFER_ECLOSED
	EDEADLK      Status = C.XFER_EDEADLK
	EFORKED      Status = C.XFER_EFORKED
	EUNSUPPORTED Status = C.XFER_EUNSUPPORTED
	EEXIST       Status = C.XFER_EEXIST
	ENOTFOUND    Status = C.XFER_ENOTFOUND
	EACCESS      Status = C.XFER_EACCESS
	ERANGE       Status = C.XFER_ERANGE
	ESTALE       Status = C.XFER_ESTALE
	ETIMEDOUT    Status = C.XFER_ETIMEDOUT
	ECANCELED    Status = C.XFER_ECANCELED
	EPEERLOST    Status = C.XFER_EPEERLOST
	EUNREACHABLE Status = C.XFER_EUNREACHABLE
	ENAME        Status = C.XFER_ENAME
	EADDRINUSE   Status = C.XFER_EADDRINUSE
	EADDR        Status = C.XFER_EADDR
	EAUTH        Status = C.XFER_EAUTH
	EIDENTITY    Status = C.XFER_EIDENTITY
	EPROTO       Status = C.XFER_EPROTO
	EVERSION     Status = C.XFER_EVERSION
	ETRUNC       Status = C.XFER_ETRUNC
	ECHECKSUM    Status = C.XFER_ECHECKSUM
	EMEMKIND     Status = C.XFER_EMEMKIND
	EOVERLOAD    Status = C.XFER_EOVERLOAD
	EREVOKED     Status = C.XFER_EREVOKED
	ENOFILES     Status = C.XFER_ENOFILES
	EIO          Status = C.XFER_EIO
	ENOSPC       Status = C.XFER_ENOSPC
	EINTERNAL    Status = C.XFER_EINTERNAL
)

// Error is the name of the status, such as "XFER_ESTALE".
func (s Status) Error() string { return C.GoString(C.xfer_status_name(C.xfer_status_t(s))) }

// Error is a status with what is known of it. errors.Is finds the status in it, and why a context ended.
type Error struct {
	Status     Status
	Text       string // one sentence
	Origin     uint32
	NativeCode int32
	Fenced     bool  // nothing of the operation can land any more
	Cause      error // of the context, if that ended the operation
}

func (e *Error) Error() string { return e.Status.Error() + ": " + e.Text }

func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Status}
	}
	return []error{e.Status, e.Cause}
}

// failed is nil, or what a call has answered at once.
func failed(status C.xfer_status_t, detail *C.xfer_error_t) error {
	if status == C.XFER_OK {
		return nil
	}
	err := &Error{Status: Status(status), Text: C.GoString(C.xfer_status_text(status)), Fenced: true}
	if detail != nil {
		err.Text = C.GoString(&detail.message[0])
		err.Origin, err.NativeCode = uint32(detail.origin), int32(detail.native_code)
	}
	return err
}

// failure is nil, or what the event of an operation says.
func (e *outcome) failure(ctx context.Context) error {
	if e.status == C.XFER_OK {
		return nil
	}
	err := &Error{Status: Status(e.status), Text: C.GoString(C.xfer_status_text(e.status)),
		Origin: uint32(e.origin), NativeCode: int32(e.nativeCode), Fenced: e.flags&C.XFER_MAYBE_APPLIED == 0}
	switch e.kind { // of these, data is a sentence
	case C.XFER_EVENT_PUT, C.XFER_EVENT_GET, C.XFER_EVENT_ATOMIC, C.XFER_EVENT_SEND, C.XFER_EVENT_NOTIFIED,
		C.XFER_EVENT_FLUSH, C.XFER_EVENT_CONNECT:
		if len(e.data) > 0 {
			err.Text = string(e.data)
		}
	}
	if _, limited := ctx.Deadline(); limited && err.Status == ETIMEDOUT {
		err.Cause = context.DeadlineExceeded
	} else if err.Status == ECANCELED {
		err.Cause = ctx.Err()
	}
	return err
}

// bytesOf is a copy of what an event points at.
func bytesOf(event *C.xfer_event_t) []byte {
	return C.GoBytes(event.data, C.int(event.data_length))
}

// start is the address of the first byte, if there is one.
func start(data []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(data)) }
