/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test does with the fake driver of CUDA, which its program is linked with: it goes by the
 * name of the real one. Its device memory is none of the CPU's: who touches it gets
 * SIGSEGV, or EFAULT from the system. */
#ifndef XFER_TESTS_FAKE_DRIVER_H
#define XFER_TESTS_FAKE_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of device 0. */
void *fake_cuda_alloc(size_t size);
/* By cuMemAllocManaged. `concurrent`: the devices allow the CPU to touch it, as it may then here.
 * An adapter (tests/unit/fake_libibverbs.cc) that registers it is "wrong". */
void *fake_cuda_alloc_managed(size_t size, int concurrent);
/* Two allocations of it beside each other, of whole pages. */
void fake_cuda_alloc_pair(size_t size, void *memory[2]);
/* A reservation with two mappings, half of it each, of which one is unmapped. */
void *fake_cuda_map(size_t size);
void fake_cuda_unmap(void *memory, int half);
/* Where one was that is free now. */
void *fake_cuda_alloc_at(size_t size, void *at);
void fake_cuda_free(void *memory);
void fake_cuda_write(void *to, const void *from, size_t size);
void fake_cuda_read(void *to, const void *from, size_t size);

/* By a stream of the application, whose handle this is: it is there after `ms`. What waits for
 * that, or for a default stream, is cuStreamSynchronize, called by its name. */
void *fake_cuda_write_later(void *to, const void *from, size_t size, unsigned ms);

/* ---- streams of the application, of whose context they are ---- */

void *fake_cuda_stream(void);
/* It goes through what is in it; one that waits for ever aborts the test. */
void fake_cuda_end_stream(void *stream);
/* By a kernel, in the order of the stream: of bytes of now; of what is there then, and may be host
 * memory that is registered. */
void fake_cuda_write_on(void *stream, void *to, const void *from, size_t size);
void fake_cuda_copy_on(void *stream, void *to, const void *from, size_t size);
/* Whether it has done all that is in it, in `ms` at most. */
int fake_cuda_idle(void *stream, unsigned ms);

/* Whether it waits for memory now. */
int fake_cuda_waits(void *stream);

/* ---- graphs ---- */

/* What comes into the stream is a node of a graph. It is broken by a call into the stream that
 * fails, and by calls of any thread that could wait, unless they are made in mode relaxed. */
void fake_cuda_capture(void *stream);
/* The graph. NULL: it was broken. */
void *fake_cuda_end_capture(void *stream);
void *fake_cuda_instantiate(void *graph);
/* One launch of an instance waits for the one before, by whatever stream. */
void fake_cuda_launch(void *exec, void *stream);
void fake_cuda_free_graph(void *graph);
/* It may be under way: what it has is kept until then. */
void fake_cuda_free_exec(void *exec);

/* Ends all graphs, instances and streams that a test left. */
void fake_cuda_end_all(void);

/* ---- what goes wrong ---- */

/* Copies begin, and none goes on until this is over: a kernel has the device for itself. */
void fake_cuda_hold(int held);
/* The same for the library's copies alone, and for one stream of the application. */
void fake_cuda_hold_copies(int held);
void fake_cuda_hold_stream(void *stream, int held);
/* The library's copies wait behind what waits for memory in other streams, as where one queue of
 * the device is for all. */
void fake_cuda_share(int shares);
/* The `nth` call of that name from now on returns `error`, and with `sticky` all calls from then
 * on. NULL: none does, and the device is as new. */
void fake_cuda_fail(const char *call, int nth, int error, int sticky);
/* All calls of that name are refused (CUDA_ERROR_INVALID_VALUE); NULL: none. */
void fake_cuda_refuse(const char *call);
/* Engines that are opened from now on find no such call. NULL: they find all. */
void fake_cuda_lack(const char *call);
/* The application has no primary context, and its memory is of no context, as that of a pool. */
void fake_cuda_without_context(int without);
/* cuDevicePrimaryCtxReset by the application: its memory, and all that was made in the context, has
 * gone; who uses a handle of it aborts the test, and what was retained stays so. The application
 * has it again, at the same address, with the memory that it allocates next. */
void fake_cuda_reset(void);
/* How often the library has retained the primary context, and not released it. */
int fake_cuda_retained(void);
/* The application has no primary context, but one of cuCtxCreate, and its memory is of that; 0: it
 * has destroyed it, as after a reset. A second one comes at the address of the first. */
void fake_cuda_own_context(int own);
/* How often it was called, all in all. "wrong": what a driver would not forgive, such as a call
 * without a context, a copy of memory that was freed, or a call by what the driver calls. */
unsigned fake_cuda_calls(const char *call);

#ifdef __cplusplus
}
#endif
#endif
