/* SPDX-License-Identifier: Apache-2.0
 *
 * The C ABI with memory of a real GPU: puts are from it and into it, as are gets, by way of the
 * host's; what the CPU would have to touch is refused, told by its device, and left alone; pinned
 * and managed memory moves as any of the host's, between two processes. */
#include <string.h>

#include "fixture.h"
#include "gpu.h"

enum { kSize = 1 << 20, kDevicePattern = 0x5a };

static bool has_gpu(void) {
    const char *why = gpu_open();
    if (why != NULL) print_message("skipped: no GPU: %s\n", why);
    return why == NULL;
}

static CUcontext current(void) {
    CUcontext context;
    GPU(cuCtxGetCurrent(&context));
    return context;
}

/* ---- memory of the device ---- */

typedef struct DeviceMemory {
    CUdeviceptr address;
    const char *name; /* in what is refused */
} DeviceMemory;

enum { kDeviceKinds = 3 };
static size_t mapped_size;

static void take_device(DeviceMemory memory[kDeviceKinds]) {
    GPU(cuMemAlloc(&memory[0].address, kSize));
    GPU(cuMemAllocAsync(&memory[1].address, kSize, NULL));
    memory[2].address = gpu_map(1, &mapped_size);
    memory[0].name = memory[1].name = "memory of CUDA device 0";
    memory[2].name = "memory of CUDA device 0, mapped by cuMemMap";
    for (int i = 0; i < kDeviceKinds; i++)
        GPU(cuMemsetD8(memory[i].address, kDevicePattern, kSize));
    GPU(cuCtxSynchronize());
}

/* Nobody has written to it. */
static void give_back(DeviceMemory memory[kDeviceKinds]) {
    uint8_t *seen = test_memory(kSize), *wanted = test_memory(kSize);
    memset(wanted, kDevicePattern, kSize);
    for (int i = 0; i < kDeviceKinds; i++) {
        GPU(cuMemcpyDtoH(seen, memory[i].address, kSize));
        assert_memory_equal(seen, wanted, kSize);
    }
    GPU(cuMemFree(memory[0].address));
    GPU(cuMemFreeAsync(memory[1].address, NULL));
    gpu_unmap(memory[2].address, 1, mapped_size);
}

static void assert_says(const xfer_error_t *err, const char *part) {
    if (strstr(err->message, part) == NULL) fail_msg("'%s' is not in '%s'", part, err->message);
}

static void assert_region_refused(Host *host, const DeviceMemory *memory) {
    xfer_region_options_t options = {.size = sizeof options, .access = XFER_ATOMIC};
    xfer_region_t *region;
    xfer_error_t err;
    void *address = (void *)memory->address;
    assert_status(xfer_region_open(host->engine, &options, address, kSize, &region, &err),
                  XFER_EMEMKIND);
    options.access = XFER_READ | XFER_WRITE;
    options.kind = XFER_MEM_HOST;
    assert_status(xfer_region_open(host->engine, &options, address, kSize, &region, &err),
                  XFER_EMEMKIND);
    assert_says(&err, "XFER_MEM_HOST");
    assert_says(&err, memory->name);
}

static void assert_refused(Pair *pair, const DeviceMemory *memory) {
    void *local = (void *)memory->address;
    const xfer_op_options_t copy = {.size = sizeof copy, .flags = XFER_FLAG_COPY};
    assert_status(xfer_put(pair->ep, local, &pair->ref, 0, 64, 1, &copy), XFER_EMEMKIND);
    assert_status(xfer_send(pair->ep, local, 64, 1, 1, &copy), XFER_EMEMKIND);
    assert_region_refused(pair->server, memory);
}

static void test_the_cpu_does_not_touch_it(void **state) {
    Pair pair;
    DeviceMemory memory[kDeviceKinds];
    if (!has_gpu()) skip();
    pair_open(&pair, *state, kSize);
    take_device(memory);
    for (int i = 0; i < kDeviceKinds; i++)
        assert_refused(&pair, &memory[i]);
    assert_ptr_equal(current(), gpu.context);
    /* The same in a thread of which nothing is known. */
    GPU(cuCtxSetCurrent(NULL));
    for (int i = 0; i < kDeviceKinds; i++)
        assert_refused(&pair, &memory[i]);
    assert_null(current());
    GPU(cuCtxSetCurrent(gpu.context));
    give_back(memory);
}

/* Each kind of it, into the memory of another process and back; half of it by a batch, in pages. */
static void move(Host *client, xfer_ep_t *ep, const xfer_ref_t *ref, CUdeviceptr device) {
    enum { kPage = 4096, kPages = kSize / 2 / kPage };
    uint8_t *from = test_memory(kSize), *to = test_memory(kSize);
    uint32_t pages[kPages];
    xfer_batch_t *batch;
    const xfer_page_base_t base = {.local = device, .remote = ref, .offset = kSize / 2};
    const xfer_pages_t table = {.size = sizeof table,
                                .base_size = sizeof base,
                                .index_size = 4,
                                .length = kPage,
                                .count = kPages,
                                .base_count = 1,
                                .local_pages = pages,
                                .remote_pages = pages,
                                .bases = &base};
    for (uint32_t i = 0; i < kPages; i++)
        pages[i] = kPages - 1 - i;
    fill(from, kSize, device);
    GPU(cuMemcpyHtoD(device, from, kSize));
    assert_status(put_now(client, ep, (void *)device, ref, 0, kSize / 2), XFER_OK);
    assert_status(xfer_batch_open(ep, NULL, &batch, NULL), XFER_OK);
    assert_status(xfer_batch_add_pages(batch, XFER_OP_PUT, &table, NULL), XFER_OK);
    assert_status(submit_now(client, batch), XFER_OK);
    assert_status(xfer_batch_close(batch), XFER_OK);
    assert_status(get_now(client, ep, to, ref, 0, kSize), XFER_OK);
    assert_memory_equal(to, from, kSize / 2);
    assert_memory_equal(to + kSize / 2, from, kSize / 2);
    GPU(cuMemsetD8(device, 0, kSize));
    GPU(cuCtxSynchronize());
    assert_status(get_now(client, ep, (void *)(device + 1), ref, 1, kSize - 1), XFER_OK);
    GPU(cuMemcpyDtoH(to, device, kSize));
    assert_int_equal(to[0], 0);
    assert_memory_equal(to + 1, from + 1, kSize / 2 - 1);
    assert_memory_equal(to + kSize / 2, from, kSize / 2);
}

static void test_device_memory_moves(void **state) {
    Peer peer;
    DeviceMemory memory[kDeviceKinds];
    if (!has_gpu()) skip();
    peer_start(&peer, preferred("tcp://127.0.0.1:0"), kSize, 0);
    Host *client = host_open(*state);
    xfer_ep_t *ep = open_ep(client, peer.uri);
    xfer_ref_t ref = look_up(client, ep, "memory");
    take_device(memory);
    for (int i = 0; i < kDeviceKinds; i++)
        move(client, ep, &ref, memory[i].address);
    assert_ptr_equal(current(), gpu.context);
    for (int i = 0; i < kDeviceKinds; i++)
        GPU(cuMemsetD8(memory[i].address, kDevicePattern, kSize));
    GPU(cuCtxSynchronize());
    give_back(memory);
    host_end(client);
    peer_kill(&peer);
}

/* Each kind of it as a region: from and to the host's memory, and the device's own. */
static void test_device_regions(void **state) {
    Pair pair;
    DeviceMemory memory[kDeviceKinds];
    CUdeviceptr own;
    if (!has_gpu()) skip();
    pair_open(&pair, *state, kSize);
    take_device(memory);
    GPU(cuMemAlloc(&own, kSize));
    uint8_t *from = test_memory(kSize), *to = test_memory(kSize);
    for (int i = 0; i < kDeviceKinds; i++) {
        void *address = (void *)memory[i].address;
        xfer_region_t *region =
            open_region(pair.server, "device", XFER_READ | XFER_WRITE, address, kSize);
        const xfer_ref_t ref = look_up(pair.client, pair.ep, "device");
        fill(from, kSize, (uint64_t)i);
        assert_status(put_now(pair.client, pair.ep, from, &ref, 0, kSize), XFER_OK);
        GPU(cuMemcpyDtoH(to, memory[i].address, kSize));
        assert_memory_equal(to, from, kSize);
        assert_status(get_now(pair.client, pair.ep, (void *)own, &ref, 0, kSize), XFER_OK);
        GPU(cuMemsetD8(memory[i].address, kDevicePattern, kSize));
        GPU(cuCtxSynchronize());
        memset(to, 0, kSize);
        assert_status(get_now(pair.client, pair.ep, to, &ref, 0, kSize), XFER_OK);
        for (int at = 0; at < kSize; at++)
            assert_int_equal(to[at], kDevicePattern);
        assert_status(put_now(pair.client, pair.ep, (void *)own, &ref, 0, kSize), XFER_OK);
        GPU(cuMemcpyDtoH(to, memory[i].address, kSize));
        assert_memory_equal(to, from, kSize);
        GPU(cuMemsetD8(memory[i].address, kDevicePattern, kSize));
        GPU(cuCtxSynchronize());
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(pair.server, region);
    }
    assert_ptr_equal(current(), gpu.context);
    GPU(cuMemFree(own));
    give_back(memory);
}

static void send_now(Pair *pair, const void *from, void *to, uint64_t length) {
    assert_status(xfer_recv(pair->server->engine, NULL, to, length, 1, ANY_USER, 1, NULL), XFER_OK);
    assert_status(xfer_send(pair->ep, from, length, 1, 2, NULL), XFER_OK);
    assert_status(wait_event(pair->server, XFER_EVENT_RECV, 1, kPatience).status, XFER_OK);
    assert_status(wait_event(pair->client, XFER_EVENT_SEND, 2, kPatience).status, XFER_OK);
}

/* Each kind of it as a message, from and to the host's, and one's own. */
static void test_device_messages(void **state) {
    const uint64_t lengths[] = {1, 4088, 4089, kSize};
    Pair pair;
    DeviceMemory memory[kDeviceKinds];
    CUdeviceptr own;
    if (!has_gpu()) skip();
    pair_open(&pair, *state, kSize);
    take_device(memory);
    GPU(cuMemAlloc(&own, kSize));
    uint8_t *from = test_memory(kSize), *to = test_memory(kSize);
    for (int i = 0; i < kDeviceKinds; i++)
        for (int j = 0; j < 4; j++) {
            void *address = (void *)memory[i].address;
            fill(from, kSize, (uint64_t)(i + j));
            send_now(&pair, from, address, lengths[j]);
            send_now(&pair, address, (void *)own, lengths[j]);
            memset(to, 0, kSize);
            send_now(&pair, (void *)own, to, lengths[j]);
            assert_memory_equal(to, from, lengths[j]);
            GPU(cuMemsetD8(memory[i].address, kDevicePattern, kSize));
            GPU(cuCtxSynchronize());
        }
    assert_ptr_equal(current(), gpu.context);
    GPU(cuMemFree(own));
    give_back(memory);
}

static void test_past_the_end(void **state) {
    Pair pair;
    CUdeviceptr device, managed;
    if (!has_gpu()) skip();
    pair_open(&pair, *state, 2 * kSize);
    GPU(cuMemAlloc(&device, kSize));
    GPU(cuMemAllocManaged(&managed, kSize, CU_MEM_ATTACH_GLOBAL));
    const CUdeviceptr both[] = {device, managed};
    for (int i = 0; i < 2; i++) {
        void *local = (void *)both[i];
        assert_status(put_now(pair.client, pair.ep, local, &pair.ref, 0, kSize + 1), XFER_ERANGE);
        assert_status(get_now(pair.client, pair.ep, (char *)local + kSize - 1, &pair.ref, 0, 2),
                      XFER_ERANGE);
    }
    GPU(cuMemFree(device));
    GPU(cuMemFree(managed));
}

/* ---- host memory that the driver knows ---- */

typedef enum HostKind { kPinned, kRegistered, kManaged, kHostKinds } HostKind;

static uint8_t *take_host(HostKind kind) {
    void *memory = NULL;
    CUdeviceptr managed;
    switch (kind) {
    case kPinned:
        GPU(cuMemHostAlloc(&memory, kSize, CU_MEMHOSTALLOC_PORTABLE));
        break;
    case kRegistered:
        memory = test_memory(kSize);
        GPU(cuMemHostRegister(memory, kSize, CU_MEMHOSTREGISTER_PORTABLE));
        break;
    default:
        GPU(cuMemAllocManaged(&managed, kSize, CU_MEM_ATTACH_GLOBAL));
        memory = (void *)managed;
    }
    return memory;
}

static void give_host(HostKind kind, uint8_t *memory) {
    switch (kind) {
    case kPinned:
        GPU(cuMemFreeHost(memory));
        break;
    case kRegistered:
        GPU(cuMemHostUnregister(memory));
        break;
    default:
        GPU(cuMemFree((CUdeviceptr)memory));
    }
}

/* Managed memory lives on the device after this, until the CPU touches it. */
static void set(HostKind kind, uint8_t *memory, uint8_t value) {
    if (kind != kManaged) {
        memset(memory, value, kSize);
        return;
    }
    GPU(cuMemsetD8((CUdeviceptr)memory, value, kSize));
    GPU(cuCtxSynchronize());
}

static const uint64_t sizes[] = {1, 8, 4096, 65536, kSize};
enum { kSizes = sizeof sizes / sizeof sizes[0] };

/* Into the memory of another process, and back. */
static void test_host_memory_moves(void **state) {
    Peer peer;
    if (!has_gpu()) skip();
    peer_start(&peer, preferred("tcp://127.0.0.1:0"), kSize, 0);
    Host *client = host_open(*state);
    xfer_ep_t *ep = open_ep(client, peer.uri);
    xfer_ref_t ref = look_up(client, ep, "memory");
    for (HostKind kind = 0; kind < kHostKinds; kind++) {
        uint8_t *from = take_host(kind), *to = take_host(kind);
        for (int i = 0; i < kSizes; i++) {
            set(kind, from, (uint8_t)(17 * i + kind + 1));
            set(kind, to, 0);
            assert_status(put_now(client, ep, from, &ref, 0, sizes[i]), XFER_OK);
            assert_status(get_now(client, ep, to, &ref, 0, sizes[i]), XFER_OK);
            assert_memory_equal(from, to, sizes[i]);
            for (uint64_t at = sizes[i]; at < kSize; at++)
                assert_int_equal(to[at], 0);
        }
        give_host(kind, from);
        give_host(kind, to);
    }
    assert_ptr_equal(current(), gpu.context);
    host_end(client);
    peer_kill(&peer);
}

/* It is lent, and a message comes from it and goes into it. */
static void test_host_memory_is_lent(void **state) {
    if (!has_gpu()) skip();
    Pair pair;
    pair_open(&pair, *state, kSize);
    uint8_t *seen = test_memory(kSize);
    for (HostKind kind = 0; kind < kHostKinds; kind++) {
        uint8_t *memory = take_host(kind), *into = take_host(kind);
        xfer_region_t *region =
            open_region(pair.server, "host", XFER_READ | XFER_WRITE, memory, kSize);
        xfer_region_info_t info;
        assert_status(xfer_region_info(region, &info, sizeof info), XFER_OK);
        assert_int_equal(info.kind, XFER_MEM_HOST);
        xfer_ref_t ref = look_up(pair.client, pair.ep, "host");
        for (int i = 0; i < kSizes; i++) {
            set(kind, memory, (uint8_t)(i + 1));
            assert_status(get_now(pair.client, pair.ep, seen, &ref, 0, sizes[i]), XFER_OK);
            assert_int_equal(seen[0], i + 1);
            assert_int_equal(seen[sizes[i] - 1], i + 1);
            memset(seen, 0x70 + i, sizes[i]);
            assert_status(put_now(pair.client, pair.ep, seen, &ref, 0, sizes[i]), XFER_OK);
            assert_memory_equal(memory, seen, sizes[i]);

            const uint64_t user = 10 + (uint64_t)i;
            assert_status(
                xfer_recv(pair.server->engine, NULL, into, kSize, user, ~UINT64_C(0), user, NULL),
                XFER_OK);
            assert_status(xfer_send(pair.ep, memory, sizes[i], user, user, NULL), XFER_OK);
            assert_status(wait_event(pair.client, XFER_EVENT_SEND, user, kPatience).status,
                          XFER_OK);
            assert_status(wait_event(pair.server, XFER_EVENT_RECV, user, kPatience).status,
                          XFER_OK);
            assert_memory_equal(into, memory, sizes[i]);
        }
        assert_status(xfer_region_close(region), XFER_OK);
        wait_closed(pair.server, region);
        give_host(kind, memory);
        give_host(kind, into);
    }
}

static const struct CMUnitTest tests[] = {
    EACH_DISPATCH(test_device_memory_moves),
    EACH_DISPATCH(test_device_regions),
    EACH_DISPATCH(test_device_messages),
    EACH_DISPATCH(test_the_cpu_does_not_touch_it),
    ONE_MODE(test_past_the_end),
    EACH_DISPATCH(test_host_memory_moves),
    EACH_DISPATCH(test_host_memory_is_lent),
};

TEST_MAIN(tests)
