// SPDX-License-Identifier: Apache-2.0
#include "core/message/send.h"

#include "core/connection/connection.h"
#include "core/message/message_sender.h"

namespace xfer {

void Send::reset() {
    Operation::reset();
    number = connection = 0;
    leaving = 0;
    pulled = answered = false;
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
    lose(lost.why);
    maybe_applied = !answered;
    fencing = answered = true;  // no other word is waited for
    if (flow->messages.still(lost, *this)) flow->complete(*this);
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
