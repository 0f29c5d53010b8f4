// SPDX-License-Identifier: Apache-2.0
// One step of one queue pair: a request as initiator, with its target, or one of its flushes.
// With the mutex of the fabric held.
#pragma once

#include "fake_verbs_objects.h"

namespace xfer::rdma {

class FakeExecution {
public:
    FakeExecution(FakeFabric &fabric, FakeQueuePair &pair)
        : fabric_(fabric),
          pair_(pair),
          adapter_(adapter_of(pair.context)),
          here_(*adapter_.objects_) {}

    // False: there is nothing to do, or what is next has to wait.
    bool run_one();
    static bool land(FakeFabric &fabric, const FakePacket &packet);

private:
    uint64_t next() const;
    bool flush_one();
    void send_late(const FakeRequest &request);
    bool execute(uint64_t at);
    void report();

    ibv_wc_status perform(FakeRequest &request);
    FakeAdapter *adapter_at(const ibv_ah_attr &route) const;
    bool find_target();

    // As the target.
    ibv_wc_status serve(FakeRequest &request);
    ibv_wc_status write(const FakeRequest &request);
    ibv_wc_status write_with_imm(const FakeRequest &request);
    ibv_wc_status send(const FakeRequest &request);
    ibv_wc_status read(const FakeRequest &request);
    ibv_wc_status atomic(const FakeRequest &request);
    ibv_wc_status not_ready();
    ibv_wc_status refuse(ibv_wc_status status);
    bool has_credits();
    void fail_target();
    void end_receive(FakeQueuePair &pair, const ibv_wc &entry, bool solicited);
    uint8_t *remote(uint32_t rkey, uint64_t address, uint64_t bytes, unsigned access) const;
    uint8_t *by_window(uint32_t rkey, uint64_t address, uint64_t bytes, unsigned access) const;

    // Of memory windows.
    ibv_wc_status bind(const FakeRequest &request);
    ibv_wc_status invalidate(const FakeRequest &request);

    void gather(const FakeRequest &request, uint8_t *to) const;
    static void scatter(const FakeAdapter::Objects &objects, const ibv_pd *domain,
                        const std::vector<ibv_sge> &pieces, const uint8_t *from, uint64_t bytes);

    FakeFabric &fabric_;
    FakeQueuePair &pair_;
    FakeAdapter &adapter_;
    FakeAdapter::Objects &here_;
    FakeQueuePair *target_ = nullptr;
    FakeAdapter::Objects *there_ = nullptr;
    bool waits_ = false, answers_lost_ = false, target_failed_ = false;
};

}  // namespace xfer::rdma
