// SPDX-License-Identifier: Apache-2.0
#include "core/engine/device_stalls.h"

#include <fmt/format.h>

#include "core/base/shard_core.h"
#include "util/memory.h"

namespace xfer {

bool DeviceStalls::on_stalled(int32_t device, uint64_t ns) {
    Failure why;
    Words *words = nullptr;
    const bool kept = catch_bad_alloc([&] {
        why = {XFER_ETIMEDOUT, XFER_ORIGIN_CUDA, 0,
               fmt::format("no copy from or to CUDA device {} has ended for {} ms", device,
                           ns / kNsPerMs)};
        words = &words_[device];
    });
    if (!kept || words->stalled.untaken.load(std::memory_order_acquire) ||
        words->moving.untaken.load(std::memory_order_acquire))
        return false;
    shard_.log().warn("{}", std::string_view(why.message));
    words->told = true;
    tell(words->stalled, device, ns, why);
    return true;
}

void DeviceStalls::on_moving(int32_t device, uint64_t ns) {
    const auto at = words_.find(device);
    if (at == words_.end() || !std::exchange(at->second.told, false)) return;
    tell(at->second.moving, device, ns, {});
}

void DeviceStalls::tell(Word &word, int32_t device, uint64_t ns, const Failure &why) {
    word.event = {};
    word.event.kind = XFER_EVENT_STALLED;
    word.event.status = why.status;
    word.event.origin = why.origin;
    word.event.user = shard_.engine.options().user;
    word.event.tag = static_cast<uint64_t>(device);
    word.event.index = shard_.index;
    word.event.bytes = ns;
    word.why = why.message;
    word.explain(word.why);
    word.untaken.store(true, std::memory_order_relaxed);
    shard_.outbox.post(word);
}

}  // namespace xfer
