// SPDX-License-Identifier: Apache-2.0
// What neighbours say to each other through the rendezvous socket once frames go by the rings:
// which regions one may reach by itself. Numbers are as the host has them: it is one host.
#pragma once

#include <cstring>
#include <optional>

#include "util/status.h"
#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/ids.h"
#include "xfer/xfer.h"

namespace xfer::shm {

// What a region allows that takes a mapping which may be written. Who may do atomics can give each
// aligned word any value by them: such a mapping lets it do no more than that.
constexpr uint64_t kChanges = XFER_WRITE | XFER_ATOMIC;

// A memory as a neighbour maps it: for reading, or for both.
using MappingId = Id<struct MappingKind>;
inline MappingId mapping_of(MemoryId memory, bool writable) {
    return {memory.value << 1 | (writable ? 1 : 0)};
}

struct Word {
    enum class Kind : uint64_t {
        show = 1,   // asks for a region: generation, key
        shown = 2,  // answers it; if mapping is not 0, a descriptor of it came once, with or before
                    // this
        hide = 3,   // that region has ended
        drop = 4,   // so has the memory of that mapping, and all that lay in it
    };
    Kind kind{};
    uint64_t region = 0;
    uint64_t generation = 0, key = 0;
    uint64_t status = 0;  // shown: 0, or there is no reaching it
    uint64_t slot = 0, stamp = 0;
    uint64_t base = 0, length = 0, access = 0;
    uint64_t mapping = 0, offset = 0;  // where the region lies
};

inline ConstBytes encode(const Word &word) {
    return {reinterpret_cast<const uint8_t *>(&word), sizeof word};
}

inline std::optional<Word> decode_word(ConstBytes bytes) {
    Word word;
    if (bytes.size() != sizeof word) return std::nullopt;
    std::memcpy(&word, bytes.data(), sizeof word);
    return word;
}

// An initiator that leaves before it has the rings says its bye here.
inline std::optional<Frame> decode_bye(ConstBytes bytes) {
    if (bytes.size() != Frame::kSize) return std::nullopt;
    auto frame = decode_frame(bytes.data());
    return frame && frame->type == FrameType::bye ? frame : std::nullopt;
}

}  // namespace xfer::shm
