// SPDX-License-Identifier: Apache-2.0
// What an engine says of itself in a handshake. The terms may change while loops announce peers:
// each takes a copy.
#pragma once

#include <mutex>
#include <utility>

#include "wire/hello.h"
#include "wire/proof.h"

namespace xfer {

class Self {
public:
    EngineId id{};
    uint64_t incarnation = 0;
    Secret key;
    bool keyed() const { return !key.empty(); }
    void (*random)(void *context, Bytes out) = nullptr;
    void *random_context = nullptr;

    Terms terms() const {
        std::lock_guard lock(mutex_);
        return terms_;
    }
    void set_terms(Terms terms) {
        std::lock_guard lock(mutex_);
        terms_ = std::move(terms);
    }

private:
    mutable std::mutex mutex_;
    Terms terms_;
};

}  // namespace xfer
