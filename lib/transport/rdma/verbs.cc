// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/verbs.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

// A macro of the header, for an inline function that would link the library.
#undef ibv_query_port

namespace xfer::rdma {

namespace {

using QueryExported = decltype(&::ibv_query_port);

// Of the library that was loaded last; all that can be are of one kind.
std::atomic<QueryExported> query_exported{nullptr};

// The driver's context, null if the driver is older than the call. It grows at its beginning. (The
// header's verbs_get_ctx_op does the same in C with extensions.)
template <typename Call>
verbs_context *driver_with(ibv_context *context, Call verbs_context::*call) {
    verbs_context *const driver = verbs_get_ctx(context);
    if (!driver) return nullptr;
    const auto offset =
        reinterpret_cast<uintptr_t>(&(driver->*call)) - reinterpret_cast<uintptr_t>(driver);
    return driver->sz >= sizeof *driver - offset && driver->*call ? driver : nullptr;
}

// Fields that the driver does not know are 0.
int query_port(ibv_context *context, uint8_t port, ibv_port_attr *out) {
    std::memset(out, 0, sizeof *out);
    if (verbs_context *const driver = driver_with(context, &verbs_context::query_port))
        return driver->query_port(context, port, out, sizeof *out);
    return query_exported.load()(context, port, reinterpret_cast<_compat_ibv_port_attr *>(out));
}

int query_device_ex(ibv_context *context, ibv_device_attr_ex *out) {
    std::memset(out, 0, sizeof *out);
    verbs_context *const driver = driver_with(context, &verbs_context::query_device_ex);
    return driver ? driver->query_device_ex(context, nullptr, out, sizeof *out) : EOPNOTSUPP;
}

class Library {
public:
    explicit Library(const char *name) : name_(name) {
        // Global symbols would meet those of a program that brings a libibverbs of its own.
        handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (handle_) return;
        const char *const why = ::dlerror();
        why_ = why ? why : name;
    }

    // Null where the library is older.
    template <typename Function>
    void find(const char *symbol, Function *&to) {
        to = handle_ ? reinterpret_cast<Function *>(::dlsym(handle_, symbol)) : nullptr;
    }
    template <typename Function>
    void need(const char *symbol, Function *&to) {
        find(symbol, to);
        if (!to && why_.empty()) why_ = Text(name_) + " has no " + symbol + ": it is too old";
    }

    const Text &why_not() const { return why_; }

private:
    const char *const name_;
    void *handle_ = nullptr;
    Text why_;  // empty: nothing that is needed is missing
};

void find_devices(Library &library, Verbs &verbs) {
    library.need("ibv_get_device_list", verbs.get_device_list);
    library.need("ibv_free_device_list", verbs.free_device_list);
    library.need("ibv_get_device_name", verbs.get_device_name);
    library.need("ibv_open_device", verbs.open_device);
    library.need("ibv_close_device", verbs.close_device);
    library.need("ibv_query_device", verbs.query_device);
    library.need("_ibv_query_gid_ex", verbs.query_gid_ex);
    library.need("ibv_query_pkey", verbs.query_pkey);
    library.need("ibv_get_async_event", verbs.get_async_event);
    library.need("ibv_ack_async_event", verbs.ack_async_event);
}

void find_memory(Library &library, Verbs &verbs) {
    library.need("ibv_alloc_pd", verbs.alloc_pd);
    library.need("ibv_dealloc_pd", verbs.dealloc_pd);
    library.need("ibv_reg_mr", verbs.reg_mr);
    library.find("ibv_reg_mr_iova2", verbs.reg_mr_iova2);
    library.find("ibv_reg_dmabuf_mr", verbs.reg_dmabuf_mr);
    library.need("ibv_dereg_mr", verbs.dereg_mr);
}

void find_queues(Library &library, Verbs &verbs) {
    library.need("ibv_create_comp_channel", verbs.create_comp_channel);
    library.need("ibv_destroy_comp_channel", verbs.destroy_comp_channel);
    library.need("ibv_create_cq", verbs.create_cq);
    library.need("ibv_destroy_cq", verbs.destroy_cq);
    library.need("ibv_get_cq_event", verbs.get_cq_event);
    library.need("ibv_ack_cq_events", verbs.ack_cq_events);
    library.need("ibv_create_qp", verbs.create_qp);
    library.need("ibv_modify_qp", verbs.modify_qp);
    library.need("ibv_query_qp", verbs.query_qp);
    library.need("ibv_destroy_qp", verbs.destroy_qp);
}

}  // namespace

Result<Verbs> load_verbs_from(const char *name) {
    Library library(name);
    Verbs verbs{};
    QueryExported exported = nullptr;
    find_devices(library, verbs);
    find_memory(library, verbs);
    find_queues(library, verbs);
    library.need("ibv_query_port", exported);
    if (!library.why_not().empty())
        return Failure{XFER_EUNSUPPORTED, XFER_ORIGIN_VERBS, 0, library.why_not()};
    query_exported.store(exported);
    verbs.query_port = query_port;
    verbs.query_device_ex = query_device_ex;
    return verbs;
}

// ibv_fork_init is not called: it is a choice for the whole process, and so the program's, which
// makes it with RDMAV_FORK_SAFE=1 or by calling it before its first engine. It takes what is
// registered from children (MADV_DONTFORK, by whole pages), who may need what lies beside it; and
// it fails once anybody has registered memory. Kernels since 5.12 need none of it: they copy pinned
// pages for the child. Older ones may copy them for the parent, whose device goes on with the page
// that the child has: there a fork without it costs the parent what arrives later.
Result<const Verbs *> load_verbs() {
    static std::mutex mutex;
    static std::optional<Verbs> loaded;
    const std::lock_guard lock(mutex);
    if (!loaded) {
        Result<Verbs> found = load_verbs_from("libibverbs.so.1");
        if (!found) return found.error();
        loaded = *found;
    }
    return &*loaded;
}

int verbs_errno(int result) {
    return result > 0 ? result : errno;
}

Failure verbs_failure(int error, Text what) {
    Failure failure = os_failure(error, what);
    failure.origin = XFER_ORIGIN_VERBS;
    return failure;
}

}  // namespace xfer::rdma
