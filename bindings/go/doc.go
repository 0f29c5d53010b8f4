// SPDX-License-Identifier: Apache-2.0

// Package xfer moves bytes between the memories of processes, by libxfer: memory is lent under a name, and a peer puts,
// gets, or sends messages. What a word means, and how each operation behaves, the header xfer.h says.
//
// Waiting. What ends with an event takes a context and returns when the event came, in every case: from then on nobody
// touches the memory that was passed in. The context's deadline is that of the operation, which then ends with
// [ErrTimedOut]; a context that is canceled asks for an early end, once, and the operation ends with [ErrCanceled]. The
// error wraps both, so errors.Is finds the status and the error of the context. To have several operations under way, call
// from several goroutines; where they are to begin in an order, or the wait is to be given up and the operation is not,
// begin each by [Endpoint.BeginPut], [Endpoint.BeginGet], [Endpoint.BeginSend] or [Batch.Begin], which return a [Pending].
//
// Memory. Slices of an operation are pinned while it is under way, those of a [Batch] until its Reset or Close, that of
// a [Region] until its Close. Memory that is lent for long is better not of Go's heap: [Engine.Alloc] has some. That of a
// device is a slice, too, by [DeviceMemory].
//
// Events that end no operation come through the channel of [Options], as values of the types that implement [Event].
//
// Threads. Everything may be called from any goroutine; but the calls on one Batch, one at a time. No thread of the
// library enters Go: one goroutine of each engine polls it, when Go's network poller finds its descriptor readable.
//
// Lifetime. Close may be called at any time, more than once, and beside other calls; it returns when the handle's memory
// is quiet. Closing an engine closes all that is of it. An engine that becomes unreachable with all of its objects is
// closed by the collector, as a net (from Go 1.24).
package xfer
