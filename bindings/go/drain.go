// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdlib.h>
#include <xfer/text.h>
*/
import "C"

import (
	"os"
	"syscall"
	"unsafe"
)

const burst = 64 // events taken with one poll

// watch hands a duplicate of the descriptor to Go's poller; the library closes its own.
func (e *core) watch() error {
	var fd C.int32_t
	if err := failed(C.xfer_engine_fd(e.raw, &fd), nil); err != nil {
		return err
	}
	duplicate, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return os.NewSyscallError("fcntl", errno)
	}
	if err := syscall.SetNonblock(int(duplicate), true); err != nil {
		return err
	}
	e.file = os.NewFile(duplicate, "xfer")
	return nil
}

// drain is the goroutine that takes events, whenever the descriptor is readable, until the engine's CLOSED.
func (e *core) drain() {
	connection, err := e.file.SyscallConn()
	if err != nil {
		panic(err)
	}
	memory := (*C.xfer_event_t)(C.calloc(burst, C.sizeof_xfer_event_t)) // C's, in which cgo looks for no pointers of Go
	defer C.free(unsafe.Pointer(memory))
	events := unsafe.Slice(memory, burst)
	var count C.uint32_t
	err = connection.Read(func(uintptr) (over bool) {
		for count = burst; count == burst; {
			status := C.xfer_engine_poll(e.raw, memory, C.sizeof_xfer_event_t, burst, 0, &count)
			if err := failed(status, nil); err != nil {
				panic(err)
			}
			for i := range events[:count] {
				over = e.deliver(copied(&events[i])) || over
			}
		}
		return over // or once more when it is readable
	})
	if err != nil {
		panic(err)
	}
	if e.events != nil {
		close(e.events)
	}
	e.over()
}

func copied(from *C.xfer_event_t) event {
	to := event{kind: uint32(from.kind), flags: uint32(from.flags), origin: uint32(from.origin),
		status: int32(from.status), nativeCode: int32(from.native_code), user: uint64(from.user),
		bytes: uint64(from.bytes), tag: uint64(from.tag), index: uint64(from.index), ep: from.ep}
	if from.data_length > 0 {
		to.data = append(to.data, unsafe.Slice((*byte)(from.data), int(from.data_length))...)
	}
	return to
}

// deliver gives one event to whoever waits for it, and says whether it is the engine's last.
func (e *core) deliver(what event) (last bool) {
	switch what.kind {
	case C.XFER_EVENT_CLOSED:
		return e.closed(what.user)
	case C.XFER_EVENT_PUT, C.XFER_EVENT_GET, C.XFER_EVENT_BATCH, C.XFER_EVENT_SEND, C.XFER_EVENT_RECV,
		C.XFER_EVENT_LOOKUP, C.XFER_EVENT_PROBE, C.XFER_EVENT_CONNECT, C.XFER_EVENT_COUNTER, C.XFER_EVENT_REVOKED,
		C.XFER_EVENT_DRAINED, C.XFER_EVENT_NOTIFIED, C.XFER_EVENT_ATOMIC, C.XFER_EVENT_FLUSH:
		e.finish(what)
	case C.XFER_EVENT_PEER:
		e.tell(&Peer{e.arrived(what.ep, what.user), what.tag})
	default:
		e.tell(e.shown(what))
	}
	return false
}

// finish ends what the event is about. A quiet operation that failed is waited for by nobody.
func (e *core) finish(what event) {
	e.table.Lock()
	waiter := e.waiters[what.user]
	delete(e.waiters, what.user)
	e.table.Unlock()
	if waiter != nil {
		waiter.end = what
		if waiter.stop != nil {
			waiter.stop()
		}
		if waiter.ctx != nil {
			waiter.err = what.failureBy(waiter.ctx)
		}
		if waiter.reused { // from here on by whoever comes next
			waiter.done <- struct{}{}
			return
		}
		close(waiter.done)
		if waiter.over != nil {
			waiter.over()
		}
	} else if what.status != C.XFER_OK {
		e.tell(e.shown(what))
	}
}

// closed ends a handle; the engine's is the last.
func (e *core) closed(word uint64) (last bool) {
	if word == e.name {
		return true
	}
	e.table.Lock()
	h := e.handles[word]
	e.table.Unlock()
	if h == nil {
		return false
	}
	h.mutex.RLock()
	freed := h.closed // else it ends with the engine, whose close frees it
	h.mutex.RUnlock()
	if freed {
		e.drop(word)
	}
	h.over()
	return false
}

// tell sends an event to the user, and waits while there is no room, until the engine is closed.
func (e *core) tell(what Event) {
	if e.events == nil {
		return
	}
	select {
	case e.events <- what:
		return
	default:
	}
	select {
	case e.events <- what:
	case <-e.closing:
	}
}
