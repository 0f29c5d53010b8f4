// SPDX-License-Identifier: Apache-2.0
#include "wire/ref.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace xfer {

namespace {

constexpr std::array<uint8_t, 4> kRefMagic = {'x', 'r', 'e', 'f'};
// Of refs that allow atomics, and of those that do not. Who knows no atomics has no use for the
// former and is told that they are of a later version; the latter are as they always were.
constexpr uint32_t kRefVersion = 2, kRefVersionWithoutAtomics = 1;
constexpr uint32_t version_of(uint32_t access) {
    return access & XFER_ATOMIC ? kRefVersion : kRefVersionWithoutAtomics;
}
constexpr uint32_t kRefAccesses = XFER_READ | XFER_WRITE | XFER_ATOMIC;

constexpr size_t kRefVersionAt = 4, kRefIdAt = 8, kRefIncarnationAt = 24, kRefRegionAt = 32,
                 kRefKeyAt = 40;
constexpr size_t kRefOffsetAt = 48, kRefLengthAt = 56, kRefGenerationAt = 64, kRefAccessAt = 68,
                 kRefKindAt = 72;
constexpr size_t kRefZeroAt = 76, kRefSumAt = 88;
static_assert(kRefZeroAt + sizeof(uint32_t) + sizeof(uint64_t) == kRefSumAt);
static_assert(kRefSumAt + sizeof(uint64_t) == sizeof(xfer_ref_t));

// Refs travel through other programs, as text and in tables. The sum finds what was mangled on the
// way; it is no protection against an attacker, which the key is. Every step is one-to-one, so no
// change of one word is missed.
uint64_t sum_of(const uint8_t *bytes) {
    uint64_t sum = 0;
    for (size_t at = 0; at < kRefSumAt; at += sizeof(uint64_t)) {
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
    if (!std::equal(kRefMagic.begin(), kRefMagic.end(), from)) return no_ref("a wrong start");
    const uint32_t version = load<uint32_t>(from + kRefVersionAt);
    if (version == 0) return no_ref("a wrong start");
    if (version > kRefVersion) {
        return Failure{XFER_EVERSION, XFER_ORIGIN_NONE, 0,
                       Text("a ref of version ") + std::to_string(version) +
                           ", which is later than this library's"};
    }
    if (load<uint64_t>(from + kRefSumAt) != sum_of(from)) return no_ref("it was changed");
    if (load<uint32_t>(from + kRefZeroAt) || load<uint64_t>(from + kRefZeroAt + sizeof(uint32_t)))
        return no_ref("a field that is not zero");
    RemoteRegion region;
    std::copy_n(from + kRefIdAt, region.id.size(), region.id.begin());
    region.incarnation = load<uint64_t>(from + kRefIncarnationAt);
    region.region = load<uint64_t>(from + kRefRegionAt);
    region.key = load<uint64_t>(from + kRefKeyAt);
    region.offset = load<uint64_t>(from + kRefOffsetAt);
    region.length = load<uint64_t>(from + kRefLengthAt);
    region.generation = load<uint32_t>(from + kRefGenerationAt);
    region.access = load<uint32_t>(from + kRefAccessAt);
    region.kind = load<uint32_t>(from + kRefKindAt);
    if (region.offset + region.length < region.offset) return no_ref("its range wraps");
    if (region.access & ~kRefAccesses || version != version_of(region.access))
        return no_ref("an access that its version has not");
    return region;
}

}  // namespace

xfer_ref_t encode_ref(const RemoteRegion &region) {
    xfer_ref_t ref{};
    uint8_t *to = ref.bytes;
    std::copy(kRefMagic.begin(), kRefMagic.end(), to);
    store<uint32_t>(to + kRefVersionAt, version_of(region.access));
    std::copy(region.id.begin(), region.id.end(), to + kRefIdAt);
    store<uint64_t>(to + kRefIncarnationAt, region.incarnation);
    store<uint64_t>(to + kRefRegionAt, region.region);
    store<uint64_t>(to + kRefKeyAt, region.key);
    store<uint64_t>(to + kRefOffsetAt, region.offset);
    store<uint64_t>(to + kRefLengthAt, region.length);
    store<uint32_t>(to + kRefGenerationAt, region.generation);
    store<uint32_t>(to + kRefAccessAt, region.access);
    store<uint32_t>(to + kRefKindAt, region.kind);
    store<uint64_t>(to + kRefSumAt, sum_of(to));
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
