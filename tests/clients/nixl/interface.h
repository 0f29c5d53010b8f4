// SPDX-License-Identifier: Apache-2.0
// A mock of what NIXL asks of a back end, written from its documentation: the same duties under
// names of our own, as far as one-sided transfers of host memory with notifications need them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nixl_mock {

enum class Status {
    success,
    in_progress,
    invalid,
    not_supported,
    not_found,
    disconnected,
    canceled,
    failed
};

enum class Memory { dram, vram };

enum class Operation { read, write };

// What a back end knows of memory that was registered here, or loaded from another agent.
class Metadata {
public:
    virtual ~Metadata() = default;
};

// A transfer that was prepared, and may be posted again when it has ended.
class Request {
public:
    virtual ~Request() = default;
};

struct Descriptor {
    uintptr_t address;
    size_t length;
    Metadata *metadata;
};

using Descriptors = std::vector<Descriptor>;
using Notifications = std::vector<std::pair<std::string, std::string>>;  // (agent, message)

class BackEnd {
public:
    virtual ~BackEnd() = default;

    virtual bool supports_local() const = 0;
    virtual bool supports_remote() const = 0;
    virtual bool supports_notifications() const = 0;
    virtual std::vector<Memory> supported_memory() const = 0;

    virtual Status register_memory(uintptr_t address, size_t length, Memory kind,
                                   Metadata **out) = 0;
    virtual Status deregister_memory(Metadata *metadata) = 0;

    // What goes to other agents by the side channel, as opaque text: how to connect, and each
    // registration.
    virtual Status connection_info(std::string *out) const = 0;
    virtual Status public_data(const Metadata *metadata, std::string *out) const = 0;
    virtual Status load_connection_info(const std::string &agent, const std::string &info) = 0;
    virtual Status load_remote(uintptr_t address, size_t length, Memory kind,
                               const std::string &data, const std::string &agent,
                               Metadata **out) = 0;
    virtual Status load_local(Metadata *registered, Metadata **out) = 0;
    virtual Status unload(Metadata *loaded) = 0;

    virtual Status connect(const std::string &agent) = 0;
    virtual Status disconnect(const std::string &agent) = 0;

    virtual Status prepare(Operation operation, const Descriptors &local, const Descriptors &remote,
                           const std::string &agent, Request **out) = 0;
    virtual Status post(Request *request, const std::string *notification) = 0;
    virtual Status check(Request *request) = 0;
    virtual Status release(Request *request) = 0;

    virtual Status take_notifications(Notifications *out) = 0;
    virtual Status notify(const std::string &agent, const std::string &message) = 0;
};

}  // namespace nixl_mock
