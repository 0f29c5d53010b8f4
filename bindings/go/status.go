// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/text.h>
import "C"

// Status is a number that the library answers with. Each is an error by itself; errors.Is finds it in an [Error].
type Status int32

// The statuses; a library that is later than this package may have others.
const (
	ErrInval       Status = C.XFER_EINVAL       // an argument is wrong
	ErrBadHandle   Status = C.XFER_EBADHANDLE   // not a live handle of that type
	Err2Big        Status = C.XFER_E2BIG        // an input struct has fields that this library does not know
	ErrNoMem       Status = C.XFER_ENOMEM       // out of memory
	ErrAgain       Status = C.XFER_EAGAIN       // a queue is full now; a ROOM event follows once, of receives a RECV
	ErrTooBig      Status = C.XFER_ETOOBIG      // exceeds a fixed limit: retrying will not help
	ErrDegraded    Status = C.XFER_EDEGRADED    // the path is being rebuilt
	ErrBusy        Status = C.XFER_EBUSY        // in use: a batch in flight, a second poller, a drain that was begun
	ErrClosed      Status = C.XFER_ECLOSED      // the handle, or its engine, is closed or draining
	ErrDeadlk      Status = C.XFER_EDEADLK      // the call would wait for the thread that makes it
	ErrForked      Status = C.XFER_EFORKED      // the handle belongs to the parent of this process
	ErrUnsupported Status = C.XFER_EUNSUPPORTED // this build or this combination of options has no such thing
	ErrExist       Status = C.XFER_EEXIST       // the name is taken
	ErrNotFound    Status = C.XFER_ENOTFOUND    // nothing of that name, tag or index
	ErrAccess      Status = C.XFER_EACCESS      // refused by the region, by the peer's application, or by the system, as an address
	ErrRange       Status = C.XFER_ERANGE       // outside the region or the allocation, or the range wraps
	ErrStale       Status = C.XFER_ESTALE       // the ref names a region or an incarnation that is gone
	ErrTimedOut    Status = C.XFER_ETIMEDOUT    // the deadline passed, or nothing moved for the stall limit
	ErrCanceled    Status = C.XFER_ECANCELED    // canceled by the user, or by a close
	ErrPeerLost    Status = C.XFER_EPEERLOST    // the connection, or the lane that carried it, ended while the operation was under way
	ErrUnreachable Status = C.XFER_EUNREACHABLE // no connection could be made
	ErrName        Status = C.XFER_ENAME        // the host name has no address
	ErrAddrInUse   Status = C.XFER_EADDRINUSE   // the port, or every port of the range, is taken
	ErrAddr        Status = C.XFER_EADDR        // the address is malformed or not one of this host
	ErrAuth        Status = C.XFER_EAUTH        // the peer could not prove that it has the key, or a listener needs one
	ErrIdentity    Status = C.XFER_EIDENTITY    // not the engine that was expected answered, or owns the ref; or our id is used twice
	ErrProto       Status = C.XFER_EPROTO       // the peer broke the protocol
	ErrVersion     Status = C.XFER_EVERSION     // a peer's, or a ref's, version or feature that this library does not know
	ErrTrunc       Status = C.XFER_ETRUNC       // the message was longer than the buffer
	ErrChecksum    Status = C.XFER_ECHECKSUM    // the payload changed on its way
	ErrMemKind     Status = C.XFER_EMEMKIND     // no path serves memory of that kind
	ErrOverload    Status = C.XFER_EOVERLOAD    // the peer sheds load
	ErrRevoked     Status = C.XFER_EREVOKED     // the grant was revoked or its lease ended
	ErrNoFiles     Status = C.XFER_ENOFILES     // out of file descriptors
	ErrIO          Status = C.XFER_EIO          // the system or a device refused, as of memory that is not mapped; see native_code
	ErrNoSpc       Status = C.XFER_ENOSPC       // the caller's buffer is too small
	ErrInternal    Status = C.XFER_EINTERNAL    // a defect of this library
)

// Error is the name of the status, such as "XFER_ESTALE", or "XFER_EUNKNOWN".
func (s Status) Error() string { return C.GoString(C.xfer_status_name(C.xfer_status_t(s))) }

// Text is one sentence about the status.
func (s Status) Text() string { return C.GoString(C.xfer_status_text(C.xfer_status_t(s))) }

// Statuses are all that the library can answer with.
func Statuses() []Status {
	var all []Status
	for status := C.xfer_status_t(0); C.xfer_status_at(C.uint32_t(len(all)), &status) == C.XFER_OK; {
		all = append(all, Status(status))
	}
	return all
}
