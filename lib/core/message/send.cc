// SPDX-License-Identifier: Apache-2.0
#include "core/message/send.h"

#include "core/base/shard_core.h"
#include "core/connection/connection.h"
#include "core/message/message_sender.h"
#include "core/region/shard_regions.h"
#include "core/transfer/flow.h"

namespace xfer {

void Send::reset() {
    Operation::reset();
    number = connection = 0;
    leaving = reading = 0;
    pulled = answered = false;
    memory_error.reset();
}

bool Send::start() {
    flow->messages.enqueue(*this);
    return true;
}

void Send::withdraw() {
    Connection *live = flow->connection();
    if (begun() && live) return flow->messages.cancel(*live, *this);
    flow->complete(*this);
}

// If another has taken the connection's place its channels may not be down yet: what was pulled can
// still be on its way out.
void Send::connection_lost(Connection &lost) {
    if (connection != lost.number) return;
    if (!answered) lose(lost.why);
    maybe_applied = !answered;
    fencing = answered = true;  // no other word is waited for
    if (flow->messages.still(lost, *this)) flow->complete(*this);
}

bool Send::leave_adapters() {
    if (!is_lent() || flow->shard.regions.take_back(*this)) return true;
    flow->messages.forget(*this);
    return false;
}

void Send::on_left() {
    flow->left_adapters(*this);
}

// Nothing is seen of what an adapter reads.
void Send::look_for_progress() {
    const Connection *live = flow->connection();
    const bool is_here = is_lent() && live && live->number == connection;
    if (is_here && live->attached.exports(MessageId{number})) progress = flow->now();
}

void Send::ended() {
    if (begun()) flow->messages.forget(*this);
    Operation::ended();
    explain(reason);
}

Ref<Endpoint> Send::clear() {
    quiet = false;
    copied.clear();
    return Ref<Endpoint>::adopt(ep);
}

}  // namespace xfer
