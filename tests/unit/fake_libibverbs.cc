// SPDX-License-Identifier: Apache-2.0
// A libibverbs of fake adapters, found by its name in place of the system's (LD_LIBRARY_PATH): any
// program that links libxfer moves its bytes by adapters then, within one process. What is posted
// is executed at once. A rule of verbs that was broken aborts the program at its end. With
// XFER_FAKE_NO_WINDOWS they have no memory windows.
#include <dlfcn.h>

#include <cstdlib>

#include "fake_verbs.h"

#undef ibv_query_port

namespace {

using xfer::rdma::FakeFabric;

const xfer::rdma::Verbs &table() {
    static FakeFabric fabric;
    static const bool has_adapters = [] {
        fabric.run_on_post(true);
        const bool windows = !std::getenv("XFER_FAKE_NO_WINDOWS");
        fabric.add({.windows = windows});
        fabric.add({.windows = windows});
        return true;
    }();
    return has_adapters ? FakeFabric::verbs() : FakeFabric::verbs();
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

// Devices.
EXPORT ibv_device **ibv_get_device_list(int *count) {
    return table().get_device_list(count);
}
EXPORT void ibv_free_device_list(ibv_device **list) {
    table().free_device_list(list);
}
EXPORT const char *ibv_get_device_name(ibv_device *device) {
    return table().get_device_name(device);
}
EXPORT ibv_context *ibv_open_device(ibv_device *device) {
    return table().open_device(device);
}
EXPORT int ibv_close_device(ibv_context *context) {
    return table().close_device(context);
}
EXPORT int ibv_query_device(ibv_context *context, ibv_device_attr *out) {
    return table().query_device(context, out);
}
EXPORT int ibv_query_port(ibv_context *context, uint8_t port, _compat_ibv_port_attr *out) {
    return table().query_port(context, port, reinterpret_cast<ibv_port_attr *>(out));
}
EXPORT int _ibv_query_gid_ex(ibv_context *context, uint32_t port, uint32_t index,
                             ibv_gid_entry *out, uint32_t flags, size_t entry_size) {
    return table().query_gid_ex(context, port, index, out, flags, entry_size);
}
EXPORT int ibv_query_pkey(ibv_context *context, uint8_t port, int index, __be16 *out) {
    return table().query_pkey(context, port, index, out);
}
EXPORT int ibv_get_async_event(ibv_context *context, ibv_async_event *out) {
    return table().get_async_event(context, out);
}
EXPORT void ibv_ack_async_event(ibv_async_event *event) {
    table().ack_async_event(event);
}

// Memory.
EXPORT ibv_pd *ibv_alloc_pd(ibv_context *context) {
    return table().alloc_pd(context);
}
EXPORT int ibv_dealloc_pd(ibv_pd *domain) {
    return table().dealloc_pd(domain);
}
#undef ibv_reg_mr
EXPORT ibv_mr *ibv_reg_mr(ibv_pd *domain, void *address, size_t length, int access) {
    // The fake driver of CUDA, where a program has that: it knows what may not be registered.
    using Told = void(const void *, size_t);
    static auto *const tell =
        reinterpret_cast<Told *>(::dlsym(RTLD_DEFAULT, "fake_cuda_registered"));
    if (tell) tell(address, length);
    return table().reg_mr(domain, address, length, access);
}
EXPORT int ibv_dereg_mr(ibv_mr *region) {
    return table().dereg_mr(region);
}

// Queues.
EXPORT ibv_comp_channel *ibv_create_comp_channel(ibv_context *context) {
    return table().create_comp_channel(context);
}
EXPORT int ibv_destroy_comp_channel(ibv_comp_channel *channel) {
    return table().destroy_comp_channel(channel);
}
EXPORT ibv_cq *ibv_create_cq(ibv_context *context, int entries, void *user,
                             ibv_comp_channel *channel, int vector) {
    return table().create_cq(context, entries, user, channel, vector);
}
EXPORT int ibv_destroy_cq(ibv_cq *queue) {
    return table().destroy_cq(queue);
}
EXPORT int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **queue, void **user) {
    return table().get_cq_event(channel, queue, user);
}
EXPORT void ibv_ack_cq_events(ibv_cq *queue, unsigned count) {
    table().ack_cq_events(queue, count);
}
EXPORT ibv_qp *ibv_create_qp(ibv_pd *domain, ibv_qp_init_attr *attributes) {
    return table().create_qp(domain, attributes);
}
EXPORT int ibv_modify_qp(ibv_qp *pair, ibv_qp_attr *attributes, int mask) {
    return table().modify_qp(pair, attributes, mask);
}
EXPORT int ibv_query_qp(ibv_qp *pair, ibv_qp_attr *out, int mask, ibv_qp_init_attr *init) {
    return table().query_qp(pair, out, mask, init);
}
EXPORT int ibv_destroy_qp(ibv_qp *pair) {
    return table().destroy_qp(pair);
}
