// SPDX-License-Identifier: Apache-2.0
// Refs: whatever is accepted does not wrap and encodes to the bytes that it came from.
#include "wire/ref.h"

#include <algorithm>

#include "require.h"

using namespace xfer;

namespace {

void check(const xfer_ref_t &ref) {
    Result<RemoteRegion> region = decode_ref(ref);
    if (!region) return;
    REQUIRE(region->offset + region->length >= region->offset);
    const xfer_ref_t again = encode_ref(*region);
    REQUIRE(std::equal(std::begin(ref.bytes), std::end(ref.bytes), again.bytes));
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    xfer_ref_t ref{};
    if (size < sizeof ref) return 0;
    std::copy_n(data, sizeof ref, ref.bytes);
    check(ref);
    // No mutation finds the sum, so what it guards is reached by way of the members.
    RemoteRegion region;
    region.offset = load<uint64_t>(data + 48);
    region.length = load<uint64_t>(data + 56);
    region.access = load<uint32_t>(data + 68);
    region.kind = load<uint32_t>(data + 72);
    check(encode_ref(region));
    return 0;
}
