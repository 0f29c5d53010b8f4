// SPDX-License-Identifier: Apache-2.0
// Engines by the public API alone, and the memory of one at another. What a test says nothing about
// must work, or the program ends with the reason. A program has one thread of its own.
#pragma once

#include <xfer/rdma.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rdma_test {

constexpr char kOwnerPort[] = ":18516";  // where rdma_owner listens
constexpr uint64_t kOwnerBytes = uint64_t(64) << 20;

double now();
// Ends the program unless it is XFER_OK.
void must(xfer_status_t status, const char *what);
void fill(std::vector<uint8_t> &memory, uint64_t seed);

class Engine {
public:
    // `devices` as in xfer/rdma.h; null: all that there are.
    explicit Engine(const char *devices = nullptr);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    std::string listen(const std::string &uri);
    // As the region "memory", which may be read and written until the engine ends.
    void lend(std::vector<uint8_t> &memory);
    // The next end of an operation; none within `seconds`: nothing. Its data end with the next
    // call.
    std::optional<xfer_event_t> next(double seconds);
    // Bytes that adapters have carried on the connections that live.
    uint64_t carried_by_adapters() const;
    // Of each path that is open: what it has carried since it was first opened.
    std::vector<uint64_t> open_paths() const;
    // The connections that live, by their numbers; of those, whose frames go by adapters.
    std::vector<uint64_t> connections(bool frames_by_adapters = false) const;
    xfer_engine_t *raw() { return engine_; }

private:
    xfer_engine_t *engine_ = nullptr;
    std::vector<xfer_region_t *> regions_;
};

// The region "memory" of the engine at `uri`.
class Remote {
public:
    Remote(Engine &engine, const std::string &uri);
    ~Remote();
    Remote(const Remote &) = delete;
    Remote &operator=(const Remote &) = delete;

    // Begins; the event has `user`. `deadline` in seconds.
    void put(const uint8_t *from, uint64_t offset, uint64_t length, uint64_t user, double deadline);
    void get(uint8_t *to, uint64_t offset, uint64_t length, uint64_t user, double deadline);
    // Gets bytes until one comes by an adapter. With nothing else under way.
    void await_adapter();
    // All of it, in one operation each.
    xfer_status_t put_all(const std::vector<uint8_t> &from);
    xfer_status_t get_all(std::vector<uint8_t> &to);

private:
    xfer_status_t end();

    Engine &engine_;
    xfer_ep_t *ep_ = nullptr;
    xfer_ref_t ref_{};
};

}  // namespace rdma_test
