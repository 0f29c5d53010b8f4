// SPDX-License-Identifier: Apache-2.0
#include "core/base/engine_core.h"

#include <pthread.h>

#include "core/base/endpoint.h"
#include "core/base/shard_core.h"
#include "util/check.h"

namespace xfer {

uint32_t EngineCore::forks_so_far() {
    static const int counted = ::pthread_atfork(nullptr, nullptr, [] { all_forks_.fetch_add(1); });
    XFER_CHECK(counted == 0);
    return all_forks_.load();
}

EngineCore::EngineCore(Options options, uint32_t undecided, const Rooms &rooms)
    : Handle(Magic::engine),
      options_(std::move(options)),
      forks_(forks_so_far()),
      slots_(options_.max_connections),
      undecided_(undecided),
      rooms_(rooms) {}

EngineCore::~EngineCore() = default;

bool EngineCore::post_from(size_t index, Message &message) const {
    for (; index < shards_.size(); ++index)
        if (shards_[index]->post(message)) return true;
    return false;
}

void EngineCore::close_silently(Endpoint &ep) {
    ep.retain();
    if (!ep.shard.load()->post(ep.close)) ep.release();
}

}  // namespace xfer
