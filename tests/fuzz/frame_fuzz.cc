// SPDX-License-Identifier: Apache-2.0
// Frame headers: whatever is accepted is within the bounds and encodes to the bytes that it came
// from.
#include "wire/frame.h"

#include <algorithm>

#include "require.h"
#include "xfer/xfer.h"

using namespace xfer;

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    if (size < Frame::kSize) return 0;
    const std::optional<Frame> frame = decode_frame(data);
    if (!frame) return 0;
    REQUIRE(frame->pieces <= kMaxPieces);
    REQUIRE(frame->length <= access_length(kMaxPieces, kNotified | kChecked) + kMaxChunk);
    uint8_t again[Frame::kSize];
    encode(*frame, again);
    REQUIRE(frame->status >= XFER_EINTERNAL);  // none that nobody knows
    REQUIRE(std::equal(data, data + Frame::kSize - sizeof frame->status, again));
    return 0;
}
