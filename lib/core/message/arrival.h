// SPDX-License-Identifier: Apache-2.0
// A message, as the connection that it came by tells of it.
#pragma once

#include <cstdint>

#include "core/base/endpoint.h"
#include "core/message/cross_shard.h"
#include "util/ref.h"
#include "wire/bytes.h"
#include "wire/hello.h"

namespace xfer {

struct Arrival {
    ShardCore *shard = nullptr;
    uint64_t connection = 0;  // its number on that shard
    uint64_t number = 0;      // of the message on it
    EngineId from{};
    uint64_t incarnation = 0;
    uint64_t tag = 0, length = 0;
    bool sync = false, checked = false;
    bool whole = false;    // the payload came along
    ConstBytes payload;    // valid during the call
    Ref<Endpoint> source;  // a handle of the peer
    Ref<Answers> answers;  // if it has crossed
};

}  // namespace xfer
