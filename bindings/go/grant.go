// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import (
	"runtime"
	"time"
	"unsafe"
)

// GrantOptions say what a grant allows.
type GrantOptions struct {
	Access         Access // whatever the region's own is
	Offset, Length uint64
	Lease          time.Duration // in milliseconds, at least one; it ends by itself unless renewed; zero: never
}

// Grant is a part of a region that is lent by itself, until it is revoked, its lease ends, or the region is closed.
type Grant struct {
	region *Region
	ref    Ref
	end    *pending
}

// Grant lends a part of the region.
func (r *Region) Grant(options GrantOptions) (*Grant, error) {
	e := r.engine.core
	defer runtime.KeepAlive(r.engine)
	given := C.xfer_grant_options_t{access: C.uint32_t(options.Access), offset: C.uint64_t(options.Offset),
		length: C.uint64_t(options.Length), lease_ms: lease(options.Lease)}
	given.size = C.uint32_t(unsafe.Sizeof(given))
	word, waiter := e.expect(0)
	given.user = C.uint64_t(word)
	g := &Grant{region: r, end: waiter}
	var detail C.xfer_error_t
	err := failed(r.use(func() C.xfer_status_t {
		return C.xfer_region_grant(r.raw, &given, g.ref.raw(), &detail)
	}), &detail)
	if err != nil {
		e.forget(word)
		return nil, err
	}
	return g, nil
}

func lease(time time.Duration) C.uint32_t {
	if time == 0 {
		return 0
	}
	return milliseconds(time)
}

// Ref is what the peer is given.
func (g *Grant) Ref() Ref { return g.ref }

// Renew lets the lease end so long from now; zero: never. [ErrRevoked] if the grant has ended.
func (g *Grant) Renew(time time.Duration) error {
	defer runtime.KeepAlive(g.region.engine)
	return failed(g.region.use(func() C.xfer_status_t {
		return C.xfer_region_renew(g.region.raw, g.ref.raw(), lease(time))
	}), nil)
}

// Revoke takes the grant back. Its memory is quiet, as far as the grant goes, when Ended is closed. [ErrRevoked] if it
// has ended already.
func (g *Grant) Revoke() error {
	defer runtime.KeepAlive(g.region.engine)
	return failed(g.region.use(func() C.xfer_status_t { return C.xfer_region_revoke(g.region.raw, g.ref.raw()) }), nil)
}

// Ended is closed when nothing can land by the grant any more.
func (g *Grant) Ended() <-chan struct{} { return g.end.done }

// Err says how a grant ended: nil if it was revoked, or is not at its end; [ErrTimedOut] if its lease ended,
// [ErrClosed] if its region was closed.
func (g *Grant) Err() error {
	select {
	case <-g.end.done:
		return g.end.end.error()
	default:
		return nil
	}
}
