// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import "sync"

// handle is what the library has until its close; of a region, an endpoint and an engine, until their CLOSED event.
type handle struct {
	mutex  sync.RWMutex // read: a call uses the handle, which no close takes meanwhile
	closed bool
	end    func() C.xfer_status_t
	gone   chan struct{} // closed when nothing uses its memory any more
	quiet  func()        // called then; or nil
	once   sync.Once
}

func newHandle() *handle { return &handle{gone: make(chan struct{})} }

// use calls with a handle that is not closed.
func (h *handle) use(call func() C.xfer_status_t) C.xfer_status_t {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	if h.closed {
		return C.XFER_ECLOSED
	}
	return call()
}

// start begins the end, once.
func (h *handle) start() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if status := h.end(); status != C.XFER_ECLOSED { // else the engine's end came first
		return failed(status, nil)
	}
	return nil
}

// over says that the end has come.
func (h *handle) over() {
	h.once.Do(func() {
		if h.quiet != nil {
			h.quiet()
		}
		close(h.gone)
	})
}

// close ends the handle, and returns when nothing uses its memory any more.
func (h *handle) close() error {
	err := h.start()
	if err == nil {
		<-h.gone
	}
	return err
}
