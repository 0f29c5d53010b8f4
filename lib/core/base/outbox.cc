// SPDX-License-Identifier: Apache-2.0
#include "core/base/outbox.h"

#include <algorithm>

#include "core/base/endpoint.h"
#include "core/base/shard_core.h"

namespace xfer {

void Outbox::post(EventNode &node) {
    const Status status = node.event.status;
    if (status < 0 && status > -64) shard_.counters.errors[-status].add();
    events_.push_back(node);
    ++count_;
    shard_.loop.defer(shard_);
}

bool Outbox::post(std::unique_ptr<Notice> notice, Status status, uint32_t flags) {
    if (!notice->admit()) return false;
    notice->event.status = status;
    notice->event.flags = flags;
    post(*notice.release());
    return true;
}

bool Outbox::notify(Endpoint &ep, uint32_t type, std::vector<uint8_t> data, Status status,
                    uint32_t flags) {
    return post(std::make_unique<Notice>(ep, type, std::move(data)), status, flags);
}

bool Outbox::notify_peer_up(Endpoint &ep, const Identity &identity,
                            const std::vector<uint8_t> &blob, uint32_t flags) {
    std::vector<uint8_t> data(sizeof(xfer_id_t));
    std::copy(identity.id.begin(), identity.id.end(), data.begin());
    store(data.data() + 16, identity.incarnation);
    data.insert(data.end(), blob.begin(), blob.end());
    return notify(ep, XFER_EVENT_PEER_UP, std::move(data), XFER_OK, flags);
}

void Outbox::notify_peer_down(Endpoint &ep, const Failure &why) {
    const Status status = why.status < 0 ? why.status : XFER_EPEERLOST;
    if (!ep.down_event) return;
    ep.down_event->blame(why);
    post(std::move(ep.down_event), status, 0);
}

// Later, since whoever has ended it may still look at it.
void Outbox::end_quietly(EventNode &node) {
    quiet_ends_.push_back(node);
    shard_.loop.defer(shard_);
}

void Outbox::end_quiet() {
    while (EventNode *node = quiet_ends_.pop_front())
        node->ended_quietly();
}

void Outbox::hand_over() {
    if (events_.empty() || shard_.engine.events().dispatches()) return;
    shard_.engine.events().hand_over(events_, count_);
    count_ = 0;
}

// Behind what is here already, which a turn is due for.
void Outbox::hand_in(EventNode &node) {
    if (!events_.empty() || shard_.engine.events().dispatches()) return post(node);
    shard_.engine.events().hand_in(node);
}

void Outbox::deliver() {
    hand_over();
    for (uint32_t i = 0; i < kEventsPerTurn && !events_.empty(); ++i) {
        EventNode &node = *events_.pop_front();
        --count_;
        dispatching_ = true;
        shard_.engine.events().dispatch(node);
        dispatching_ = false;
    }
    if (!events_.empty()) shard_.loop.defer(shard_);
}

}  // namespace xfer
