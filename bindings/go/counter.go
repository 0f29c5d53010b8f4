// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import (
	"context"
	"runtime"
	"time"
	"unsafe"
)

// Counter counts notifications with one key, from whatever peer. Those that it counts are not told as events.
type Counter struct {
	*handle // which the engine has as well, without this value
	engine  *Engine
	raw     *C.xfer_counter_t
	word    uint64
	end     *pending
}

// Count opens a counter that ends when so many have come, or after a time from now; zero: as the engine's timeout says.
func (e *Engine) Count(key, expected uint64, limit time.Duration) (*Counter, error) {
	defer runtime.KeepAlive(e)
	c := &Counter{handle: newHandle(), engine: e}
	c.word, c.end = e.core.expect(0)
	given := C.xfer_counter_options_t{timeout_ms: lease(limit), user: C.uint64_t(c.word)}
	given.size = C.uint32_t(unsafe.Sizeof(given))
	var detail C.xfer_error_t
	err := failed(e.core.use(func() C.xfer_status_t {
		status := C.xfer_counter_open(e.core.raw, C.uint64_t(key), C.uint64_t(expected), &given, &c.raw, &detail)
		if status == C.XFER_OK {
			raw := c.raw
			c.handle.end = func() C.xfer_status_t { return C.xfer_counter_close(raw) }
			e.core.hold(c.word, c.handle)
		}
		return status
	}), &detail)
	if err != nil {
		e.core.forget(c.word)
		return nil, err
	}
	return c, nil
}

// Wait waits for the end of the counter, and returns what it has counted: all with nil, less with [ErrTimedOut].
// [ErrClosed] if it was closed before, [ErrCanceled] if the engine was. A context that ends gives up the wait alone.
func (c *Counter) Wait(ctx context.Context) (uint64, error) {
	defer runtime.KeepAlive(c.engine)
	select {
	case <-c.end.done:
		return c.end.end.index, c.end.end.error()
	case <-c.gone:
		select { // its end may have come before
		case <-c.end.done:
			return c.end.end.index, c.end.end.error()
		default:
			return 0, failed(C.XFER_ECLOSED, nil)
		}
	case <-ctx.Done():
		return 0, ended(ctx)
	}
}

// Close ends the counter; later notifications with its key are events again.
func (c *Counter) Close() error {
	defer runtime.KeepAlive(c.engine)
	err := c.start()
	if err == nil {
		c.engine.core.release(c.word, c.handle)
		c.engine.core.forget(c.word)
	}
	return err
}
