// SPDX-License-Identifier: Apache-2.0
// Questions to a peer that move no data: lookup, probe, connect.
#pragma once

#include <string>
#include <vector>

#include "core/base/endpoint.h"
#include "core/base/event.h"
#include "core/base/mailbox.h"
#include "core/transfer/cancel_request.h"
#include "loop/loop.h"

namespace xfer {

class Session;
class Peer;
struct InRequests;

class Request final : public Cancelable,
                      public Message,
                      public TimerSink,
                      public ListNode<InRequests> {
public:
    // `type` is that of its event: LOOKUP, PROBE or CONNECT.
    Request(Endpoint &endpoint, uint32_t type, uint64_t user, uint32_t timeout_ms);
    ~Request() = default;

    void arrive(ShardCore &shard) override;
    void on_timer(Timer &timer) override;
    void released() override { delete this; }
    const Endpoint *begun_with() const override { return ep.get(); }
    void cancel() override;

    uint32_t type() const { return event.kind; }
    // When it has had its time: its deadline, else the stall limit, which does not run while it
    // waits for the peer's application.
    uint64_t limit() const;
    void arm();  // its timer

    Ref<Endpoint> ep;
    const uint32_t timeout_ms;  // 0: none
    std::string name;           // lookup
    bool wait = false;          // lookup
    bool travels = false;       // between loops, where it holds a drain

    Peer *peer = nullptr;
    Session *on = nullptr;  // that it was asked on
    uint64_t seq = 0;       // there
    uint64_t asked = 0;     // when
    uint64_t deadline = 0;
    uint64_t stalls_since = 0;  // it waits for a connection, or for the peer's engine
    std::vector<uint8_t> answer;
    Text reason;  // why it failed: one sentence, or nothing
    Timer timer{*this};

private:
    const CancelCover cover_;
};

using RequestList = List<Request, InRequests>;

}  // namespace xfer
