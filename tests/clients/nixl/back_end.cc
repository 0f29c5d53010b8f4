// SPDX-License-Identifier: Apache-2.0
#include "back_end.h"

#include <xfer/text.h>

#include <array>
#include <cstring>
#include <stdexcept>

namespace nixl_mock {

struct XferBackEnd::End {
    uint64_t word() const { return reinterpret_cast<uintptr_t>(this); }

    bool came = false;
    xfer_status_t status = XFER_OK;
};

// Memory of ours. It has no name, since nobody looks it up: a grant of all of it is what peers are
// given.
struct XferBackEnd::Registered : Metadata {
    uintptr_t address = 0;
    xfer_region_t *region = nullptr;
    xfer_ref_t grant = {};
    End closed;
};

struct XferBackEnd::Remote : Metadata {
    uintptr_t address = 0;
    xfer_ref_t ref = {};
};

struct XferBackEnd::Peer {
    xfer_id_t id = {};
    std::string addresses;
    xfer_ep_t *ep = nullptr;
    End closed;
};

struct XferBackEnd::Transfer : Request {
    xfer_batch_t *batch = nullptr;
    End end;
};

namespace {

Status status_of(xfer_status_t status) {
    switch (status) {
    case XFER_OK:
        return Status::success;
    case XFER_EINVAL:
    case XFER_ERANGE:
    case XFER_EBADHANDLE:
        return Status::invalid;
    case XFER_EUNSUPPORTED:
    case XFER_EMEMKIND:
    case XFER_ETOOBIG:
        return Status::not_supported;
    case XFER_ENOTFOUND:
    case XFER_ESTALE:
    case XFER_EREVOKED:
        return Status::not_found;
    case XFER_EPEERLOST:
    case XFER_EUNREACHABLE:
    case XFER_EIDENTITY:
        return Status::disconnected;
    case XFER_ECANCELED:
        return Status::canceled;
    default:
        return Status::failed;
    }
}

void must(xfer_status_t status, const char *what) {
    if (status != XFER_OK)
        throw std::runtime_error(std::string(what) + ": " + xfer_status_name(status));
}

}  // namespace

XferBackEnd::XferBackEnd(const std::string &agent,
                         const std::map<std::string, std::string> &parameters)
    : agent_(agent) {
    xfer_engine_options_t options = {};
    xfer_error_t error;
    options.size = sizeof options;
    options.dispatch = XFER_DISPATCH_POLL;
    options.blob = agent_.data();
    options.blob_length = agent_.size();
    for (const auto &[name, value] : parameters)
        must(xfer_engine_option_set(&options, name.c_str(), value.c_str(), &error), error.message);
    must(xfer_engine_open(&options, &engine_, &error), error.message);
    char bound[256];
    must(xfer_engine_listen(engine_, "tcp://127.0.0.1:0", nullptr, bound, sizeof bound, &error),
         error.message);
}

XferBackEnd::~XferBackEnd() {
    (void)xfer_engine_join(engine_, XFER_NONE);
    for (const auto &[name, peer] : peers_)
        if (peer->ep) (void)xfer_ep_close(peer->ep);
}

std::vector<Memory> XferBackEnd::supported_memory() const {
    uint64_t kinds = 0;
    std::vector<Memory> supported;
    must(xfer_engine_kinds(engine_, &kinds), "kinds");
    if (kinds & 1U << XFER_MEM_HOST) supported.push_back(Memory::dram);
    if (kinds & 1U << XFER_MEM_CUDA) supported.push_back(Memory::vram);
    return supported;
}

void XferBackEnd::progress(uint32_t timeout_ms) {
    std::array<xfer_event_t, 64> events;
    uint32_t count = events.size();
    for (; count == events.size(); timeout_ms = 0) {
        must(xfer_engine_poll(engine_, events.data(), sizeof events[0], events.size(), timeout_ms,
                              &count),
             "poll");
        for (uint32_t i = 0; i < count; i++)
            take(events[i]);
    }
}

void XferBackEnd::take(const xfer_event_t &event) {
    const char *data = static_cast<const char *>(event.data);
    switch (event.kind) {
    case XFER_EVENT_PEER_UP:
        names_[event.ep].assign(data + sizeof(xfer_id_t), event.data_length - sizeof(xfer_id_t));
        break;
    case XFER_EVENT_PEER_DOWN:
        names_.erase(event.ep);
        break;
    case XFER_EVENT_NOTIFY:
        // One of a batch that failed: NIXL has no word for it.
        if (event.status == XFER_OK)
            notifications_.emplace_back(names_[event.ep], std::string(data, event.data_length));
        break;
    case XFER_EVENT_BATCH:
    case XFER_EVENT_CONNECT:
    case XFER_EVENT_CLOSED:
        if (event.user) {
            End *end = reinterpret_cast<End *>(static_cast<uintptr_t>(event.user));
            end->came = true;
            end->status = event.status;
        }
        break;
    default:
        break;
    }
}

xfer_status_t XferBackEnd::wait(const End &end) {
    while (!end.came)
        progress(XFER_NONE);
    return end.status;
}

Status XferBackEnd::register_memory(uintptr_t address, size_t length, Memory kind, Metadata **out) {
    auto registered = std::make_unique<Registered>();
    xfer_region_options_t options = {};
    options.size = sizeof options;
    options.kind = kind == Memory::dram ? XFER_MEM_HOST : XFER_MEM_CUDA;
    options.user = registered->closed.word();
    registered->address = address;
    xfer_status_t status = xfer_region_open(engine_, &options, reinterpret_cast<void *>(address),
                                            length, &registered->region, nullptr);
    if (status != XFER_OK) return status_of(status);
    xfer_grant_options_t grant = {};
    grant.size = sizeof grant;
    grant.access = XFER_READ | XFER_WRITE;
    grant.length = length;
    status = xfer_region_grant(registered->region, &grant, &registered->grant, nullptr);
    if (status == XFER_OK)
        *out = registered.release();
    else
        deregister_memory(registered.release());
    return status_of(status);
}

Status XferBackEnd::deregister_memory(Metadata *metadata) {
    std::unique_ptr<Registered> registered(static_cast<Registered *>(metadata));
    xfer_status_t status = xfer_region_close(registered->region);
    return status_of(status == XFER_OK ? wait(registered->closed) : status);
}

Status XferBackEnd::connection_info(std::string *out) const {
    xfer_id_t id;
    char text[XFER_ID_TEXT_SIZE];
    must(xfer_engine_id(engine_, &id), "id");
    must(xfer_id_text(&id, text, sizeof text), "id as text");
    uint64_t needed = 0;
    (void)xfer_engine_addresses(engine_, nullptr, 0, &needed);
    std::string addresses(needed, '\0');
    must(xfer_engine_addresses(engine_, addresses.data(), needed, &needed), "addresses");
    addresses.pop_back();  // its NUL
    *out = std::string(text) + ' ' + addresses;
    return Status::success;
}

Status XferBackEnd::public_data(const Metadata *metadata, std::string *out) const {
    char text[XFER_REF_TEXT_SIZE];
    xfer_status_t status =
        xfer_ref_text(&static_cast<const Registered *>(metadata)->grant, text, sizeof text);
    if (status == XFER_OK) *out = text;
    return status_of(status);
}

Status XferBackEnd::load_connection_info(const std::string &agent, const std::string &info) {
    size_t space = info.find(' ');
    xfer_id_t id;
    if (space == std::string::npos || xfer_id_parse(info.substr(0, space).c_str(), &id) != XFER_OK)
        return Status::invalid;
    if (peers_.contains(agent)) disconnect(agent);
    auto peer = std::make_unique<Peer>();
    peer->id = id;
    peer->addresses = info.substr(space + 1);
    peers_[agent] = std::move(peer);
    return Status::success;
}

Status XferBackEnd::load_remote(uintptr_t address, size_t length, Memory /*kind*/,
                                const std::string &data, const std::string & /*agent*/,
                                Metadata **out) {
    auto remote = std::make_unique<Remote>();
    xfer_ref_info_t info;
    xfer_status_t status = xfer_ref_parse(data.c_str(), &remote->ref);
    if (status == XFER_OK) status = xfer_ref_info(&remote->ref, &info, sizeof info);
    if (status != XFER_OK) return status_of(status);
    if (info.length != length) return Status::invalid;
    remote->address = address;
    *out = remote.release();
    return Status::success;
}

Status XferBackEnd::load_local(Metadata *registered, Metadata **out) {
    auto remote = std::make_unique<Remote>();
    remote->address = static_cast<Registered *>(registered)->address;
    remote->ref = static_cast<Registered *>(registered)->grant;
    *out = remote.release();
    return Status::success;
}

Status XferBackEnd::unload(Metadata *loaded) {
    delete static_cast<Remote *>(loaded);
    return Status::success;
}

Status XferBackEnd::connect(const std::string &agent) {
    if (agent == agent_ && !peers_.contains(agent)) {  // ourselves, which needs no address
        peers_[agent] = std::make_unique<Peer>();
        must(xfer_engine_id(engine_, &peers_[agent]->id), "id");
    }
    auto found = peers_.find(agent);
    if (found == peers_.end()) return Status::not_found;
    Peer &peer = *found->second;
    if (!peer.ep) {
        xfer_ep_options_t options = {};
        options.size = sizeof options;
        options.peer = &peer.id;
        options.user = peer.closed.word();
        const char *uri = peer.addresses.empty() ? nullptr : peer.addresses.c_str();
        xfer_status_t status = xfer_ep_open(engine_, uri, &options, &peer.ep, nullptr);
        if (status != XFER_OK) return status_of(status);
    }
    End end;
    xfer_status_t status = xfer_ep_connect(peer.ep, end.word(), nullptr);
    return status_of(status == XFER_OK ? wait(end) : status);
}

Status XferBackEnd::disconnect(const std::string &agent) {
    auto found = peers_.find(agent);
    if (found == peers_.end()) return Status::not_found;
    Peer &peer = *found->second;
    if (!peer.ep) return Status::success;
    names_.erase(peer.ep);
    xfer_status_t status = xfer_ep_close(peer.ep);
    if (status == XFER_OK) status = wait(peer.closed);
    peer.ep = nullptr;
    peer.closed = {};
    return status_of(status);
}

Status XferBackEnd::prepare(Operation operation, const Descriptors &local,
                            const Descriptors &remote, const std::string &agent, Request **out) {
    auto peer = peers_.find(agent);
    if (peer == peers_.end() || !peer->second->ep) return Status::not_found;
    if (local.size() != remote.size()) return Status::invalid;
    auto transfer = std::make_unique<Transfer>();
    xfer_status_t status = xfer_batch_open(peer->second->ep, nullptr, &transfer->batch, nullptr);
    if (status != XFER_OK) return status_of(status);
    uint32_t op = operation == Operation::write ? XFER_OP_PUT : XFER_OP_GET;
    std::vector<xfer_span_t> spans;
    for (size_t i = 0; i < local.size() && status == XFER_OK; i++) {
        const auto &named = static_cast<const Remote &>(*remote[i].metadata);
        if (local[i].length != remote[i].length) status = XFER_EINVAL;
        spans.push_back({local[i].address, remote[i].address - named.address, local[i].length});
        bool last = i + 1 == local.size() || remote[i + 1].metadata != remote[i].metadata;
        if (status != XFER_OK || !last) continue;
        status = xfer_batch_add_spans(transfer->batch, op, &named.ref, spans.data(),
                                      sizeof spans[0], spans.size(), nullptr);
        spans.clear();
    }
    if (status == XFER_OK)
        *out = transfer.release();
    else
        (void)xfer_batch_close(transfer->batch);
    return status_of(status);
}

Status XferBackEnd::post(Request *request, const std::string *notification) {
    Transfer &transfer = static_cast<Transfer &>(*request);
    xfer_submit_options_t options = {};
    options.size = sizeof options;
    if (notification) {
        options.flags = XFER_SUBMIT_NOTIFY;
        options.notify_data = notification->data();
        options.notify_length = notification->size();
    }
    transfer.end = {};
    xfer_status_t status = xfer_batch_submit(transfer.batch, transfer.end.word(), &options);
    return status == XFER_OK ? Status::in_progress : status_of(status);
}

Status XferBackEnd::check(Request *request) {
    Transfer &transfer = static_cast<Transfer &>(*request);
    progress(0);
    xfer_batch_info_t info;
    must(xfer_batch_info(transfer.batch, &info, sizeof info), "info");
    return info.state == XFER_BATCH_INFLIGHT ? Status::in_progress : status_of(info.status);
}

// What is under way is canceled; its memory is the caller's again with the return.
Status XferBackEnd::release(Request *request) {
    std::unique_ptr<Transfer> transfer(static_cast<Transfer *>(request));
    if (xfer_batch_cancel(transfer->batch) == XFER_OK) (void)wait(transfer->end);
    return status_of(xfer_batch_close(transfer->batch));
}

Status XferBackEnd::take_notifications(Notifications *out) {
    progress(0);
    for (auto &notification : notifications_)
        out->push_back(std::move(notification));
    notifications_.clear();
    return Status::success;
}

Status XferBackEnd::notify(const std::string &agent, const std::string &message) {
    auto peer = peers_.find(agent);
    if (peer == peers_.end() || !peer->second->ep) return Status::not_found;
    xfer_op_options_t options = {};
    options.size = sizeof options;
    options.flags = XFER_FLAG_QUIET;  // nobody waits for it
    return status_of(xfer_notify(peer->second->ep, message.data(), message.size(), 0, 0, &options));
}

}  // namespace nixl_mock
