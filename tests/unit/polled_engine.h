// SPDX-License-Identifier: Apache-2.0
// An engine without a thread, for tests that look inside it.
#pragma once

#include <doctest/doctest.h>

#include "core/engine/engine.h"

namespace xfer {

class PolledEngine {
public:
    explicit PolledEngine(const Seams &seams = {}, uint32_t max_operations = 0) {
        xfer_engine_options_t given{};
        given.size = sizeof given;
        given.dispatch = XFER_DISPATCH_POLL;
        given.io_threads = XFER_NONE;
        given.max_operations = max_operations;
        auto options = resolve_options(given);
        REQUIRE(options);
        auto opened = Engine::open(std::move(*options), seams);
        REQUIRE(opened);
        inside = *opened;
    }
    PolledEngine(const PolledEngine &) = delete;
    PolledEngine &operator=(const PolledEngine &) = delete;
    ~PolledEngine() { CHECK(xfer_engine_join(handle(), XFER_NONE) == XFER_OK); }

    xfer_engine_t *handle() { return reinterpret_cast<xfer_engine_t *>(inside); }

    // An endpoint at an address where nobody is.
    xfer_ep_t *ep() {
        xfer_ep_t *ep = nullptr;
        REQUIRE(xfer_ep_open(handle(), "tcp://127.0.0.1:1", nullptr, &ep, nullptr) == XFER_OK);
        return ep;
    }

    // What a peer's region could look like.
    static xfer_ref_t ref(uint64_t length) {
        RemoteRegion region;
        region.id.fill(9);
        region.incarnation = region.region = region.generation = 1;
        region.length = length;
        region.access = XFER_READ | XFER_WRITE;
        region.kind = XFER_MEM_HOST;
        return encode_ref(region);
    }

    Engine *inside = nullptr;
};

}  // namespace xfer
