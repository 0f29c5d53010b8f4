// SPDX-License-Identifier: Apache-2.0
#include "wire/ref.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace xfer {

namespace {

constexpr std::array<uint8_t, 4> kMagic = {'x', 'r', 'e', 'f'};
// Of refs that allow atomics, and of those that do not. Who knows no atomics has no use for the
// former and is told that they are of a later version; the latter are as they always were.
constexpr uint32_t kVersion = 2, kVersionWithoutAtomics = 1;
constexpr uint32_t version_of(uint32_t access) {
    return access & XFER_ATOMIC ? kVersion : kVersionWithoutAtomics;
}
constexpr uint32_t kAccesses = XFER_READ | XFER_WRITE | XFER_ATOMIC;

constexpr size_t kVersionAt = 4, kIdAt = 8, kIncarnationAt = 24, kRegionAt = 32, kKeyAt = 40;
constexpr size_t kOffsetAt = 48, kLengthAt = 56, kGenerationAt = 64, kAccessAt = 68, kKindAt = 72;
constexpr size_t kZeroAt = 76, kSumAt = 88;
static_assert(kZeroAt + sizeof(uint32_t) + sizeof(uint64_t) == kSumAt);
static_assert(kSumAt + sizeof(uint64_t) == sizeof(xfer_ref_t));

// Refs travel through other programs, as text and in tables. The sum finds what was mangled on the
// way; it is no protection against an attacker, which the key is. Every step is one-to-one, so no
// change of one word is missed.
uint64_t sum_of(const uint8_t *bytes) {
    uint64_t sum = 0;
    for (size_t at = 0; at < kSumAt; at += sizeof(uint64_t)) {
        sum = std::rotl((sum ^ load<uint64_t>(bytes + at)) * 0x9e3779b97f4a7c15u, 29);
    }
    return sum;
}

Failure no_ref(const char *what) {
    return {XFER_EINVAL, XFER_ORIGIN_NONE, 0, Text("not a ref: ") + what};
}

// The last good one of this thread: most operations name the same as the one before.
struct Decoded {
    bool any = false;
    xfer_ref_t ref{};
    RemoteRegion region;
};
constinit thread_local Decoded decoded;

Result<RemoteRegion> decode(const xfer_ref_t &ref) {
    const uint8_t *from = ref.bytes;
    if (!std::equal(kMagic.begin(), kMagic.end(), from)) return no_ref("a wrong start");
    const uint32_t version = load<uint32_t>(from + kVersionAt);
    if (version == 0) return no_ref("a wrong start");
    if (version > kVersion) {
        return Failure{XFER_EVERSION, XFER_ORIGIN_NONE, 0,
                       Text("a ref of version ") + std::to_string(version) +
                           ", which is later than this library's"};
    }
    if (load<uint64_t>(from + kSumAt) != sum_of(from)) return no_ref("it was changed");
    if (load<uint32_t>(from + kZeroAt) || load<uint64_t>(from + kZeroAt + sizeof(uint32_t)))
        return no_ref("a field that is not zero");
    RemoteRegion region;
    std::copy_n(from + kIdAt, region.id.size(), region.id.begin());
    region.incarnation = load<uint64_t>(from + kIncarnationAt);
    region.region = load<uint64_t>(from + kRegionAt);
    region.key = load<uint64_t>(from + kKeyAt);
    region.offset = load<uint64_t>(from + kOffsetAt);
    region.length = load<uint64_t>(from + kLengthAt);
    region.generation = load<uint32_t>(from + kGenerationAt);
    region.access = load<uint32_t>(from + kAccessAt);
    region.kind = load<uint32_t>(from + kKindAt);
    if (region.offset + region.length < region.offset) return no_ref("its range wraps");
    if (region.access & ~kAccesses || version != version_of(region.access))
        return no_ref("an access that its version has not");
    return region;
}

}  // namespace

xfer_ref_t encode_ref(const RemoteRegion &region) {
    xfer_ref_t ref{};
    uint8_t *to = ref.bytes;
    std::copy(kMagic.begin(), kMagic.end(), to);
    store<uint32_t>(to + kVersionAt, version_of(region.access));
    std::copy(region.id.begin(), region.id.end(), to + kIdAt);
    store<uint64_t>(to + kIncarnationAt, region.incarnation);
    store<uint64_t>(to + kRegionAt, region.region);
    store<uint64_t>(to + kKeyAt, region.key);
    store<uint64_t>(to + kOffsetAt, region.offset);
    store<uint64_t>(to + kLengthAt, region.length);
    store<uint32_t>(to + kGenerationAt, region.generation);
    store<uint32_t>(to + kAccessAt, region.access);
    store<uint32_t>(to + kKindAt, region.kind);
    store<uint64_t>(to + kSumAt, sum_of(to));
    return ref;
}

Result<RemoteRegion> decode_ref(const xfer_ref_t &ref) {
    Decoded &last = decoded;
    if (last.any && !std::memcmp(&last.ref, &ref, sizeof ref)) return last.region;
    Result<RemoteRegion> region = decode(ref);
    if (region) last = {true, ref, *region};
    return region;
}

}  // namespace xfer
