// SPDX-License-Identifier: Apache-2.0
// The back end over libxfer. Every call makes progress, as an agent without a progress thread
// expects; the bytes move on the library's own thread meanwhile.
#pragma once

#include <xfer/xfer.h>

#include <map>
#include <memory>
#include <string>

#include "interface.h"

namespace nixl_mock {

class XferBackEnd final : public BackEnd {
public:
    // `agent` is our name, which peers see; `parameters` are options as xfer_engine_option_set has
    // them.
    XferBackEnd(const std::string &agent, const std::map<std::string, std::string> &parameters);
    ~XferBackEnd() override;

    bool supports_local() const override { return true; }
    bool supports_remote() const override { return true; }
    bool supports_notifications() const override { return true; }
    std::vector<Memory> supported_memory() const override;

    Status register_memory(uintptr_t address, size_t length, Memory kind, Metadata **out) override;
    Status deregister_memory(Metadata *metadata) override;

    Status connection_info(std::string *out) const override;
    Status public_data(const Metadata *metadata, std::string *out) const override;
    Status load_connection_info(const std::string &agent, const std::string &info) override;
    Status load_remote(uintptr_t address, size_t length, Memory kind, const std::string &data,
                       const std::string &agent, Metadata **out) override;
    Status load_local(Metadata *registered, Metadata **out) override;
    Status unload(Metadata *loaded) override;

    Status connect(const std::string &agent) override;
    Status disconnect(const std::string &agent) override;

    Status prepare(Operation operation, const Descriptors &local, const Descriptors &remote,
                   const std::string &agent, Request **out) override;
    Status post(Request *request, const std::string *notification) override;
    Status check(Request *request) override;
    Status release(Request *request) override;

    Status take_notifications(Notifications *out) override;
    Status notify(const std::string &agent, const std::string &message) override;

private:
    struct End;  // of an operation or a handle; its address is the word
    struct Registered;
    struct Remote;
    struct Peer;
    struct Transfer;

    void progress(uint32_t timeout_ms);
    void take(const xfer_event_t &event);
    xfer_status_t wait(const End &end);

    xfer_engine_t *engine_ = nullptr;
    std::string agent_;
    std::map<std::string, std::unique_ptr<Peer>> peers_;
    std::map<const xfer_ep_t *, std::string>
        names_;  // of who is connected, as they tell in their blobs
    Notifications notifications_;
};

}  // namespace nixl_mock
