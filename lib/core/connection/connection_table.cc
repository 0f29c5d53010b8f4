// SPDX-License-Identifier: Apache-2.0
#include "core/connection/connection_table.h"

#include "core/connection/connection.h"

namespace xfer {

void ConnectionTable::add(Connection &connection) {
    live_.emplace(connection.number, &connection);
}

void ConnectionTable::remove(const Connection &connection) {
    live_.erase(connection.number);
    ended_[connection.number % kRecentEnds] = {connection.number,
                                               {connection.why.origin, connection.why.native}};
}

Connection *ConnectionTable::find(uint64_t number) const {
    const auto at = live_.find(number);
    return at == live_.end() ? nullptr : at->second;
}

ConnectionTable::End ConnectionTable::end_of(uint64_t number) const {
    if (const Connection *live = find(number)) return {live->why.origin, live->why.native};
    const Ended &ended = ended_[number % kRecentEnds];
    return ended.number == number ? ended.end : End{};
}

}  // namespace xfer
