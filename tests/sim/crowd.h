// SPDX-License-Identifier: Apache-2.0
// Connections that never prove who they are: they say nothing, a hello in the name of whom they
// like, or what is no hello, and come again when they are ended.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim_transport.h"
#include "wire/hello.h"

namespace xfer {

class Crowd {
public:
    enum class Says : uint8_t { nothing, hello, nonsense };

    // `source`: the process whose address they come from, 0: one of their own.
    Crowd(SimNet &net, std::string uri, uint32_t source);
    ~Crowd();
    Crowd(const Crowd &) = delete;
    Crowd &operator=(const Crowd &) = delete;

    void come(uint32_t count, Says says, const EngineId &claimed);
    void leave();  // all of them, and none comes again
    uint32_t process() const { return transport_.number; }
    const std::string &uri() const { return uri_; }

private:
    class Visitor;
    std::vector<uint8_t> words(Says says, const EngineId &claimed);

    SimNet &net_;
    const std::string uri_;
    SimLoop loop_;
    SimTransport transport_;
    std::vector<std::unique_ptr<Visitor>> visitors_;
    bool gone_ = false;
};

}  // namespace xfer
