// SPDX-License-Identifier: Apache-2.0
// Refs: whatever is accepted does not wrap and encodes to the bytes that it came from, or to the
// text.
#include "wire/ref.h"

#include <algorithm>
#include <string>

#include "require.h"
#include "xfer/text.h"

using namespace xfer;

namespace {

void check(const xfer_ref_t &ref) {
    Result<RemoteRegion> region = decode_ref(ref);
    if (!region) return;
    REQUIRE(region->offset + region->length >= region->offset);
    const xfer_ref_t again = encode_ref(*region);
    REQUIRE(std::equal(std::begin(ref.bytes), std::end(ref.bytes), again.bytes));
    char text[XFER_REF_TEXT_SIZE];
    xfer_ref_t read{};
    REQUIRE(xfer_ref_text(&ref, text, sizeof text) == XFER_OK);
    REQUIRE(xfer_ref_parse(text, &read) == XFER_OK);
    REQUIRE(std::equal(std::begin(ref.bytes), std::end(ref.bytes), read.bytes));
}

void check_texts(const std::string &given) {
    xfer_ref_t ref;
    xfer_id_t id;
    char text[XFER_REF_TEXT_SIZE];
    if (xfer_ref_parse(given.c_str(), &ref) == XFER_OK)
        REQUIRE(xfer_ref_text(&ref, text, sizeof text) == XFER_OK &&
                given.c_str() == std::string(text));
    if (xfer_id_parse(given.c_str(), &id) == XFER_OK)
        REQUIRE(xfer_id_text(&id, text, sizeof text) == XFER_OK &&
                given.c_str() == std::string(text));
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    check_texts({reinterpret_cast<const char *>(data), size});
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
