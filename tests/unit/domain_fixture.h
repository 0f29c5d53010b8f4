// SPDX-License-Identifier: Apache-2.0
// A loop with its worker, over the memory half of an adapter.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fake_memory.h"
#include "loop/own_loop.h"
#include "loop/worker.h"
#include "util/log.h"

namespace xfer::rdma {

struct LoopOverMemory {
    LoopOverMemory() {
        auto opened = OwnLoop::open(SpinLimit::fixed(0));
        REQUIRE(opened);
        loop = std::move(*opened);
        worker.emplace(*loop);
        log.callback = [](uint32_t, const char *line, uint64_t user) {
            reinterpret_cast<LoopOverMemory *>(user)->lines.emplace_back(line);
        };
        log.user = reinterpret_cast<uint64_t>(this);
        memory.loop_thread = std::this_thread::get_id();
    }
    ~LoopOverMemory() {
        worker.reset();
        loop->close();
    }
    template <typename Over>
    bool turn_until(Over over) {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        bool is_over = over();
        for (; !is_over && std::chrono::steady_clock::now() < end; is_over = over())
            loop->turn(10 * kNsPerMs);
        return is_over;
    }
    void turns(int count) {
        for (int i = 0; i < count; ++i)
            loop->turn(kNsPerMs);
    }

    FakeMemory memory;
    std::unique_ptr<OwnLoop> loop;
    std::optional<Worker> worker;
    Log log;
    std::vector<std::string> lines;
};

}  // namespace xfer::rdma
