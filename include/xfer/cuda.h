/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches in the order of CUDA streams, and in CUDA graphs.
 *
 * Words and rules are those of xfer.h. libcuda is opened at run time: nothing of it is needed to compile or to link, so
 * a stream is a `void *` here, a CUstream or cudaStream_t.
 *
 *   run            one move of a batch's bytes on a stream: it begins when the stream gets there, and what comes
 *                  behind it in the stream waits for its end
 *   recorded       of a batch: submitted on a stream that was capturing, so that each launch of the graph is a run
 */
#ifndef XFER_CUDA_H
#define XFER_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "xfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cdef:begin */

/* ---- streams ---- */

/* What has become of a batch on its stream: written at the end of each run, before the stream goes on. It lies in host
 * memory that is registered with the stream's context, so that kernels behind the run may read it: at its device
 * pointer (cuMemHostGetDevicePointer), which on most systems is the same. Nobody else may write it. */
typedef struct xfer_cuda_result {
    xfer_status_t status; /* of the last run; XFER_OK before the first; why there was none, behind the batch's end */
    uint32_t flags;       /* of the same: XFER_FENCED or XFER_MAYBE_APPLIED, as an event has them */
    uint64_t runs;        /* that have ended since xfer_cuda_submit */
    uint64_t failures;    /* of them, those that did not end with XFER_OK */
    uint64_t reserved;
} xfer_cuda_result_t;

/* Submits the batch on a stream. It begins when all that is in the stream so far is done, and what comes into the
 * stream from now on waits for its end, without a thread that waits. `stream` is of any context of this process. NULL
 * is the legacy default stream of the current one; where yours is one for each thread, pass CU_STREAM_PER_THREAD.
 *
 * The stream goes on however the batch ends: a kernel that depends on its bytes looks at `*result`, or the host at the
 * event; a thread that polls it meanwhile loads atomically. Deadline and stall limit count from the begin; while it
 * waits for the stream, the batch has none. Where its memory is not quiet a second after they have passed, as where
 * nothing can stop a copy of the device, the stream goes on, with XFER_MAYBE_APPLIED in the result; the event waits.
 *
 * Where the stream captures, the batch is recorded, and nothing begins: each launch of the graph is a run, with the
 * same options, and without an event. The batch is in flight until its one event, which comes when the last graph and
 * instance that have it are destroyed, with XFER_OK, also if runs have failed. Between two runs xfer_batch_rebind is
 * allowed, as after a restart of the peer, and so is xfer_batch_entries. A batch is at one place of one graph, of which
 * one instance runs at a time; one that is updated (cuGraphExecUpdate) must have no batch in it, before and after.
 *
 * What ends the batch early lets its stream through, now and in all launches to come: a cancel, a close of the batch,
 * its endpoint or engine, a drain (XFER_ECLOSED), and a run of a graph that its stream has left before the memory was
 * quiet. A drain waits for a run that is under way. Ended in a run, the batch tells how that has ended. After an error
 * of its context, or a reset, CUDA calls nobody: a batch that waits is ended by a cancel or a close alone.
 *
 * The engine moves the bytes, so its loops have to turn while the stream waits: with XFER_DISPATCH_POLL or LOOP and no
 * I/O threads, do not wait for the stream on the thread that polls or runs the loop; nor in any callback.
 *
 * XFER_SUBMIT_ORDERED is XFER_EUNSUPPORTED here: the stream is the order. To what is ordered on the same endpoint, and
 * to xfer_ep_flush, the batch is submitted when it begins. `result`, which may be NULL, gets the address of the result.
 * Returns: XFER_OK, then one BATCH event: XFER_ECANCELED, XFER_ECLOSED; XFER_EBUSY in flight; XFER_EUNSUPPORTED where
 *          libcuda is not there, is older than 11.7 or has no operations on memory for streams of that device; XFER_EIO
 *          if the driver refuses, of a stream that captures maybe with its capture; XFER_EINVAL, XFER_E2BIG; of
 *          notify_data XFER_ETOOBIG, XFER_ERANGE, XFER_EMEMKIND.
 * Ownership: the local memory of all entries is borrowed until the event. `*result` stays until the batch is submitted
 *            again or closed, and for kernels of a graph as long as that has the batch. The stream is the caller's. */
XFER_API xfer_status_t xfer_cuda_submit(xfer_batch_t *batch, void *stream, uint64_t user,
                                        const xfer_submit_options_t *options, const xfer_cuda_result_t **result,
                                        xfer_error_t *err);

/* cdef:end */

#ifdef __cplusplus
}
#endif

#endif
