// SPDX-License-Identifier: Apache-2.0
// A port whose queue pairs are as strict as those of an adapter: slots of the send queue come back
// only when the completion of a signaled request behind them has been polled, and whatever the
// rules of verbs forbid fails the test. The test says when requests are carried out, which fail,
// and how many of a list are taken. One at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "transport/rdma/port.h"
#include "transport/rdma/verbs.h"

namespace xfer::rdma {

class FakeQueuePort {
public:
    FakeQueuePort();
    ~FakeQueuePort();  // nothing is left
    FakeQueuePort(const FakeQueuePort &) = delete;
    FakeQueuePort &operator=(const FakeQueuePort &) = delete;

    const Verbs &verbs() const { return verbs_; }
    Port port;
    ibv_cq queue{};
    uint32_t inline_bytes = 64;  // that it has: who asks for more is refused

    // The k-th call of create_qp, modify_qp and destroy_qp from now on, from 1, fails. 0: none.
    void fail_call(int k, int error) { failing_ = k, error_ = error, calls_ = 0; }
    int calls() const { return calls_; }
    // The next list is refused with ENOMEM behind so many requests.
    enum class Bad : uint8_t { right, null, foreign };
    void take(uint32_t requests, Bad bad = Bad::right) { takes_ = requests, bad_ = bad; }

    ibv_qp_state state() const { return state_; }
    const ibv_qp_attr &seen(ibv_qp_state to) const { return seen_[to]; }
    size_t waiting() const { return posted_.size(); }
    const std::vector<ibv_send_wr> &log() const { return log_; }  // all that were taken

    // Carries out the first request that waits; not well: the queue pair is in ERR then.
    void carry_out(bool well = true);
    // The next completion. What a failed one does not say is noise.
    std::optional<ibv_wc> poll();

private:
    struct Posted {
        uint64_t id;
        bool signaled;
    };
    static FakeQueuePort &of(ibv_context *context);
    bool fails();
    ibv_qp *create(ibv_qp_init_attr *attributes);
    int modify(ibv_qp_attr *attributes, int mask);
    int destroy();
    int post(ibv_send_wr *first, ibv_send_wr **bad);
    void complete(const Posted &request, ibv_wc_status status);
    void flush();

    Verbs verbs_{};
    ibv_context context_{};
    ibv_pd domain_{};
    std::unique_ptr<ibv_qp> pair_;
    ibv_qp_cap granted_{};
    ibv_qp_state state_ = IBV_QPS_RESET;
    ibv_qp_attr seen_[IBV_QPS_UNKNOWN + 1]{};
    std::deque<Posted> posted_;
    std::deque<std::pair<ibv_wc, uint32_t>> completions_;  // and the slots that come back by it
    std::vector<ibv_send_wr> log_;
    uint32_t used_ = 0, owed_ = 0;  // slots; of these, carried out and not told yet
    int failing_ = 0, calls_ = 0, error_ = 0;
    std::optional<uint32_t> takes_;
    Bad bad_ = Bad::right;
};

}  // namespace xfer::rdma
