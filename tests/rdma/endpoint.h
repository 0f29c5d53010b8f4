// SPDX-License-Identifier: Apache-2.0
// Real verbs for tests, by the table that the library has: a device, memory, and a queue pair with
// its queue. What a test says nothing about must work, or the program ends with the reason. A
// program has one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/rdma/verbs.h"

namespace rdma_test {

constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

const xfer::rdma::Verbs &verbs();

// Ends the program with the reason unless `held`.
void must(bool held, const char *what);

// Open until the program ends.
struct Device {
    explicit Device(const char *name);

    ibv_context *context = nullptr;
    ibv_pd *domain = nullptr;
    ibv_port_attr port{};
    uint32_t gid_index = 0;  // of an IPv4 address, RoCE v2
    ibv_gid gid{};
};

// The two ends of what happens in one process or one machine: RDMA_TEST_NEAR and RDMA_TEST_FAR, or
// rxe0 for both.
Device &near_device();
Device &far_device();

// Memory of its own pages, registered until it ends or `deregister`.
class Buffer {
public:
    Buffer(Device &device, size_t length, int access = kAllAccess);
    ~Buffer();
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    uint8_t *at(size_t offset = 0) const { return data_ + offset; }
    size_t length() const { return length_; }
    uint32_t local_key() const { return local_key_; }
    uint32_t remote_key() const { return remote_key_; }
    void deregister();  // the keys stay readable

    void fill(uint32_t seed);
    // The first byte that is not as `fill` leaves it, or -1.
    int64_t differs(uint32_t seed, size_t offset, size_t length) const;

private:
    const size_t length_;
    uint8_t *data_;
    ibv_mr *region_;
    uint32_t local_key_, remote_key_;
};

// What the other side must know of a queue pair and of its memory.
struct Parameters {
    uint32_t number = 0;
    uint32_t mtu = 0;  // ibv_mtu
    ibv_gid gid{};
    uint64_t address = 0;
    uint32_t key = 0;
};

// RDMA_TEST_RETRIES, or 6.
uint8_t default_retries();

struct Attributes {
    uint32_t sends = 64;
    uint32_t receives = 64;
    int entries = 256;
    // Soft-RoCE waits for (retries + 1) * 4.096 us * 2^timeout, half a second; and with 7 for ever.
    uint8_t timeout = 14;
    uint8_t retries = default_retries();
    uint8_t receiver_not_ready_retries = 7;
    ibv_comp_channel *channel = nullptr;
};

// A reliable connected queue pair with a completion queue for both directions.
class Endpoint {
public:
    explicit Endpoint(Device &device, const Attributes &attributes = {});
    ~Endpoint();
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;

    Parameters parameters(const Buffer &memory) const;
    void connect(const Parameters &peer);  // to RTS
    void fail();                           // to ERR
    ibv_qp_state state() const;
    void destroy_pair();  // the queue stays

    ibv_qp *pair() const { return pair_; }
    ibv_cq *queue() const { return queue_; }
    const ibv_qp_cap &granted() const { return granted_; }

    // The next completion, if one comes in time.
    std::optional<ibv_wc> next(double seconds = 10) const;
    // Its status, or -1.
    int next_status(double seconds = 10) const;

private:
    Device &device_;
    const Attributes attributes_;
    ibv_cq *queue_;
    ibv_qp *pair_;
    ibv_qp_cap granted_;
};

// A request as tests have them: one piece, told of when it is done.
struct Request {
    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
    uint64_t id = 0;
    ibv_sge piece{};
    uint64_t address = 0;
    uint32_t key = 0;
    unsigned flags = IBV_SEND_SIGNALED;
    uint32_t immediate = 0;
    uint64_t compare_add = 0, swap = 0;
};

ibv_sge piece(const Buffer &memory, size_t offset, size_t length);
ibv_send_wr work(Request &request);  // points into the request
int post(const Endpoint &endpoint, Request request);
int post_receive(const Endpoint &endpoint, uint64_t id, ibv_sge piece);

double now();  // seconds

}  // namespace rdma_test
