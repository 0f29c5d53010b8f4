// SPDX-License-Identifier: Apache-2.0
// What most tests begin with: a queue pair here, in RTS with one of a target.
#pragma once

#include <memory>

#include "target.h"

namespace rdma_test {

template <typename Target>
struct Link {
    explicit Link(Target &target, const Attributes &attributes = {})
        : far(target), near(near_device(), attributes) {
        there = far.ask({Ask::kOpen}).parameters;
        Question question{Ask::kConnect};
        question.parameters = near.parameters(mine);
        far.ask(question);
        near.connect(there);
    }

    // A signaled request of `length` bytes between the same place of both memories.
    Request request(ibv_wr_opcode opcode, size_t offset, size_t length, uint64_t id = 0) const {
        Request made;
        made.opcode = opcode;
        made.id = id;
        made.piece = piece(mine, offset, length);
        made.address = there.address + offset;
        made.key = there.key;
        return made;
    }
    // The status of its completion, or -1.
    int done(const Request &request) const { return post(near, request) ? -1 : near.next_status(); }

    void fill_far(uint32_t seed) { far.ask({Ask::kFill, seed}); }
    int64_t far_differs(uint32_t seed, uint64_t offset, uint64_t length) {
        return far.ask({Ask::kCompare, seed, offset, length}).value;
    }
    void far_receives(uint64_t count) { far.ask({Ask::kReceive, 0, 0, count}); }
    Answer far_next() { return far.ask({Ask::kNext}); }
    ibv_qp_state far_state() { return ibv_qp_state(far.ask({Ask::kState}).value); }

    Target &far;
    Buffer mine{near_device(), kTargetBytes};
    Endpoint near;
    Parameters there;
};

}  // namespace rdma_test
