/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of batches on streams of a real GPU share. The work of the streams is set and
 * copied memory: no kernel is compiled. Nothing here waits in the driver without a limit. */
#ifndef XFER_TESTS_CUDA_ON_GPU_H
#define XFER_TESTS_CUDA_ON_GPU_H

#include <xfer/cuda.h>

#include "fixture.h"
#include "gpu.h"

enum { kStreamPatience = 10000 }; /* ms; far beyond what a stream needs, below what a run has */

/* False: why there is no GPU, or none with operations on memory for streams, was told. */
bool has_streams(void);
/* A call of the driver that waits for a gate goes on after 30 s, and its test has failed; where one
 * hangs all the same, the program ends. */
int begin_stream_test(void **state);
/* All that a test made ends with it, also one that failed. */
int end_stream_test(void **state);

#define STREAM_TEST(test, at, name) \
    { #test " [" name "]", test, begin_stream_test, end_stream_test, (void *)&modes[at] }
#define EACH_STREAM_WAY(test)                                            \
    STREAM_TEST(test, 1, "thread/1"), STREAM_TEST(test, 3, "loop/none"), \
        STREAM_TEST(test, 6, "poll/none")
#define ONE_STREAM_WAY(test) STREAM_TEST(test, 1, "thread/1")

/* ---- the device, of the current context ---- */

CUdeviceptr take_device(uint64_t length, uint8_t value); /* each byte of it is `value` */
void assert_device_is(CUdeviceptr memory, uint64_t length, uint8_t value);
bool all_are(const uint8_t *memory, uint64_t length, uint8_t value);

CUstream take_stream(void); /* that does not wait for the default one */
/* The stream gets no further than here before the gate is opened. */
enum { kGates = 2 };
void close_gate(CUstream stream, int gate);
void open_gate(int gate);
/* Whether it gets through in time; hosts go on meanwhile. */
bool passes(CUstream stream, uint32_t ms);
void assert_passes(CUstream stream);
/* Without a turn of any host: for engines with threads, and figures. */
void spin(CUstream stream);

/* Of all that came into the stream since the capture began. */
void begin_capture(CUstream stream);
CUgraphExec end_capture(CUstream stream);

/* ---- a process that serves memory, and an engine that uses it ---- */

typedef struct Scene {
    Peer peer;
    Host *client;
    xfer_ep_t *ep;
    xfer_ref_t ref;
    uint8_t *memory; /* of the peer, as it is seen here */
    uint64_t length;
} Scene;

/* One in each test. `options` of the client; NULL: those of the mode. */
void open_scene(Scene *scene, const Mode *mode, const xfer_engine_options_t *options,
                uint64_t length);
/* At the same address; the memory keeps its content, and `ref` is stale. */
void restart_peer(Scene *scene);
/* One that goes by sockets, and does not lose a peer that is stopped for a while. */
xfer_engine_options_t socket_options(const Mode *mode);

xfer_batch_t *take_batch(const Scene *scene); /* with no entries */
xfer_batch_t *take_put(const Scene *scene, CUdeviceptr device, uint64_t offset, uint64_t length);
const xfer_cuda_result_t *submit_on(xfer_batch_t *batch, CUstream stream, uint64_t user,
                                    uint32_t timeout_ms); /* 0: the engine's */
/* The status of its one event. */
xfer_status_t end_of_batch(const Scene *scene, uint64_t user);

/* ---- tests of other files ---- */

int beside_role(const char *call);
void test_beside_free(void **state);
void test_beside_synchronize(void **state);
void test_beside_alloc(void **state);
void test_figure_of_an_empty_batch(void **state);
void test_figure_of_a_put(void **state);
void test_figure_of_a_graph(void **state);

#endif
