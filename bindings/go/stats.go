// SPDX-License-Identifier: Apache-2.0

package xfer

// #include <xfer/xfer.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// OpStats are counters since the open. Bucket b of Latency counts operations that took from 2^b to 2^(b+1) - 1
// nanoseconds.
type OpStats struct {
	Submitted uint64
	Completed uint64 // with nil
	Failed    uint64 // neither nil, expired nor canceled
	Expired   uint64 // ErrTimedOut
	Canceled  uint64
	Bytes     uint64 // moved by those that completed
	Latency   [40]uint64
	_         [7]uint64
}

// EngineStats are counters of an engine; xfer.h has more about each.
type EngineStats struct {
	Put, Get, Batch             OpStats
	Notify                      OpStats
	Send, Recv                  OpStats
	Errors                      [64]uint64 // by status: Errors[-status]
	ServedPut, ServedGet        uint64     // bytes
	Refused                     uint64
	Queued, InFlight            uint64 // operations, now
	EventsQueued                uint64
	Events                      uint64
	Connects, Accepts           uint64
	Connections, ConnectionEnds uint64
	Wakeups                     uint64
	Regions, Grants             uint64
	ServedAtomic                uint64
	Atomic                      OpStats
	LaneFalls                   uint64
}

// EndpointStats are counters of one endpoint.
type EndpointStats struct {
	Put, Get, Batch  OpStats
	Notify           OpStats
	Send             OpStats
	Queued, InFlight uint64
	Connections      uint64
	RoundTrip        uint64 // nanoseconds, of the last probe or heartbeat
	Atomic           OpStats
}

// These are the structs of C, in Go's words: it does not compile if a size differs.
var (
	_ [unsafe.Sizeof(EngineStats{})]byte   = [C.sizeof_xfer_engine_stats_t]byte{}
	_ [unsafe.Sizeof(EndpointStats{})]byte = [C.sizeof_xfer_ep_stats_t]byte{}
	_ [unsafe.Sizeof(ID{})]byte            = [C.sizeof_xfer_id_t]byte{}
	_ [unsafe.Sizeof(Ref{})]byte           = [C.sizeof_xfer_ref_t]byte{}
)

// Stats reads the engine's counters, one by one while they move.
func (e *Engine) Stats() (stats EngineStats, err error) {
	defer runtime.KeepAlive(e)
	return stats, failed(e.core.use(func() C.xfer_status_t {
		return C.xfer_engine_stats(e.core.raw, (*C.xfer_engine_stats_t)(unsafe.Pointer(&stats)),
			C.uint32_t(unsafe.Sizeof(stats)))
	}), nil)
}

// Stats reads the endpoint's counters, one by one while they move.
func (ep *Endpoint) Stats() (stats EndpointStats, err error) {
	defer runtime.KeepAlive(ep)
	return stats, failed(ep.use(func() C.xfer_status_t {
		return C.xfer_ep_stats(ep.raw, (*C.xfer_ep_stats_t)(unsafe.Pointer(&stats)), C.uint32_t(unsafe.Sizeof(stats)))
	}), nil)
}
