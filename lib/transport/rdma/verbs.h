// SPDX-License-Identifier: Apache-2.0
// libibverbs, opened at run time: an absent library is an ordinary result. The table has what the
// library exports; the data path (ibv_post_send, ibv_post_recv, ibv_poll_cq, ibv_req_notify_cq) and
// what makes memory windows are inline in its header, and go straight to the device's driver. Tests
// have a table of their own (tests/unit/fake_*.h).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "util/status.h"

namespace xfer::rdma {

struct Verbs {
    // Devices.
    ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(ibv_device **list);
    const char *(*get_device_name)(ibv_device *device);
    ibv_context *(*open_device)(ibv_device *device);
    int (*close_device)(ibv_context *context);
    int (*query_device)(ibv_context *context, ibv_device_attr *out);
    // As the inline function; EOPNOTSUPP of a driver that has no such call. Null in a table that
    // knows nothing of what is only told here.
    int (*query_device_ex)(ibv_context *context, ibv_device_attr_ex *out);
    // As the inline ibv_query_port does: by the driver's own call where it has one, which knows the
    // fields that are newer than the exported symbol.
    int (*query_port)(ibv_context *context, uint8_t port, ibv_port_attr *out);
    int (*query_gid_ex)(ibv_context *context, uint32_t port, uint32_t index, ibv_gid_entry *out,
                        uint32_t flags, size_t entry_size);
    int (*query_pkey)(ibv_context *context, uint8_t port, int index, __be16 *out);
    int (*get_async_event)(ibv_context *context, ibv_async_event *out);
    void (*ack_async_event)(ibv_async_event *event);

    // Memory.
    ibv_pd *(*alloc_pd)(ibv_context *context);
    int (*dealloc_pd)(ibv_pd *domain);
    ibv_mr *(*reg_mr)(ibv_pd *domain, void *address, size_t length, int access);
    // Null where the library is older: no optional access flags (relaxed ordering), no dma-buf.
    ibv_mr *(*reg_mr_iova2)(ibv_pd *domain, void *address, size_t length, uint64_t iova,
                            unsigned access);
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *domain, uint64_t offset, size_t length, uint64_t iova, int fd,
                             int access);
    int (*dereg_mr)(ibv_mr *region);

    // Queues.
    ibv_comp_channel *(*create_comp_channel)(ibv_context *context);
    int (*destroy_comp_channel)(ibv_comp_channel *channel);
    ibv_cq *(*create_cq)(ibv_context *context, int entries, void *user, ibv_comp_channel *channel,
                         int vector);
    int (*destroy_cq)(ibv_cq *queue);
    int (*get_cq_event)(ibv_comp_channel *channel, ibv_cq **queue, void **user);
    void (*ack_cq_events)(ibv_cq *queue, unsigned count);
    ibv_qp *(*create_qp)(ibv_pd *domain, ibv_qp_init_attr *attributes);
    int (*modify_qp)(ibv_qp *pair, ibv_qp_attr *attributes, int mask);
    int (*query_qp)(ibv_qp *pair, ibv_qp_attr *out, int mask, ibv_qp_init_attr *init);
    int (*destroy_qp)(ibv_qp *pair);
};

// Opens the library once and for ever, as its drivers can't be unloaded. The failure says why there
// is none; the next call looks again, as it may be installed meanwhile. May block. Thread: any.
Result<const Verbs *> load_verbs();

// The same of the library `name`, as dlopen takes it, each time anew.
Result<Verbs> load_verbs_from(const char *name);

// The errno of a call that returned this and not 0: verbs return it, or -1 and leave it in errno.
int verbs_errno(int result);

// "what: strerror", of a call that failed with this errno.
Failure verbs_failure(int error, Text what);

}  // namespace xfer::rdma
