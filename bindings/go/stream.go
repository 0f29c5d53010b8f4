// SPDX-License-Identifier: Apache-2.0

package xfer

/*
#include <stdint.h>
#include <xfer/cuda.h>

// A handle of a stream may be a small number, which is no pointer of Go's. The data of the notification come as a number as
// well: see batch.go.
static xfer_status_t submit_on(xfer_batch_t *batch, uintptr_t stream, uint64_t user, const xfer_submit_options_t *given,
                               uintptr_t data, const xfer_cuda_result_t **result, xfer_error_t *err) {
	xfer_submit_options_t options = *given;
	options.notify_data = (const void *)data;
	return xfer_cuda_submit(batch, (void *)stream, user, &options, result, err);
}

// A thread of the library writes it at the end of each run: flags, status, failures, runs.
static xfer_cuda_result_t read_result(const xfer_cuda_result_t *from) {
	xfer_cuda_result_t to = {.runs = __atomic_load_n(&from->runs, __ATOMIC_ACQUIRE)};
	to.failures = __atomic_load_n(&from->failures, __ATOMIC_RELAXED);
	to.status = __atomic_load_n(&from->status, __ATOMIC_ACQUIRE);
	to.flags = __atomic_load_n(&from->flags, __ATOMIC_RELAXED);
	return to;
}
*/
import "C"

import (
	"context"
	"runtime"
	"sync"
	"unsafe"
)

// SubmitOn puts the batch into a stream of CUDA, by its handle (CUstream, cudaStream_t), and returns. It begins when all that
// is in the stream so far is done, and what comes into the stream from here on waits for its end, without a goroutine or a
// thread that waits. Zero is the legacy default stream of the context that is current in the thread, which a goroutine has
// to itself by [runtime.LockOSThread].
//
// The stream goes on however the batch ends: [Batch.StreamResult] tells how, to kernels as well. Where that is not Fenced,
// copies may still touch the memory of the entries until what is pending ends. The end of the context, also
// by its deadline, is that of the batch, begun or not: its stream passes. Ordered is [ErrUnsupported], and so is all of it
// where the driver is older than CUDA 11.7.
//
// A stream that captures records the batch, and nothing begins: each launch of the graph moves the bytes again, with the
// same options. What is pending ends when the last graph and instance that have it are destroyed, without an error also if
// runs have failed, and memory stays pinned until then. Between two runs Rebind and Entries are allowed. It is at
// one place of one graph, of which one instance runs at a time, and no instance that has it is updated. After Cancel, Close
// or the end of the context launches pass without it.
func (b *Batch) SubmitOn(ctx context.Context, stream uintptr, options SubmitOptions) (*Pending, error) {
	given, err := OpOption{group: options.Group, trace: options.Trace}.raw(ctx)
	if err != nil {
		return nil, err
	}
	given.timeout_ms = 0 // the library counts from the begin of each run, the context from here
	var detail C.xfer_error_t
	begun, err := b.submit(ctx, options, given, func(word C.uint64_t, raw *C.xfer_submit_options_t, data C.uintptr_t) C.xfer_status_t {
		if options.RunTimeout != 0 {
			raw.timeout_ms = milliseconds(options.RunTimeout)
		}
		return b.stream.replace(func(result **C.xfer_cuda_result_t) C.xfer_status_t {
			return C.submit_on(b.raw, C.uintptr_t(stream), word, raw, data, result, &detail)
		})
	})
	if told := failed(C.xfer_status_t(detail.status), &detail); told != nil {
		err = told
	}
	return begun, err
}

// StreamResult is what has become of a batch on its stream, by its last run: the one of its submit, or in a graph each launch.
type StreamResult struct {
	Status   Status // zero before the first; why there was none, behind an early end
	Fenced   bool   // nothing of it can land any more; else the range is undefined
	Runs     uint64 // that have ended since the submit
	Failures uint64 // of them, those that failed
	// Address is that of the xfer_cuda_result_t in the memory of the host, for kernels that come behind, until the batch is
	// submitted again or closed.
	Address uintptr
}

// StreamResult is of the last submit; [ErrInval] if that was on no stream. Read beside a run, fields may be of two.
func (b *Batch) StreamResult() (StreamResult, error) {
	defer runtime.KeepAlive(b)
	var result StreamResult
	err := failed(b.use(func() C.xfer_status_t { return b.stream.read(&result) }), nil)
	return result, err
}

// streamResult is the library's memory.
type streamResult struct {
	mutex sync.Mutex // while that is read, or goes
	at    *C.xfer_cuda_result_t
}

// replace is for a submit on a stream: where it is refused, the one before stays.
func (r *streamResult) replace(submit func(**C.xfer_cuda_result_t) C.xfer_status_t) C.xfer_status_t {
	var found *C.xfer_cuda_result_t
	status := submit(&found)
	if status == C.XFER_OK {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.at = found
	}
	return status
}

// clear is for a submit on no stream.
func (r *streamResult) clear() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.at = nil
}

func (r *streamResult) read(to *StreamResult) C.xfer_status_t {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.at == nil {
		return C.XFER_EINVAL
	}
	raw := C.read_result(r.at)
	*to = StreamResult{Status(raw.status), raw.flags&C.XFER_MAYBE_APPLIED == 0, uint64(raw.runs), uint64(raw.failures),
		uintptr(unsafe.Pointer(r.at))}
	return C.XFER_OK
}
