// SPDX-License-Identifier: Apache-2.0
// Addresses, and lists of them: whatever is accepted means the same when it is written and read
// again.
#include "util/uri.h"

#include <algorithm>

#include "require.h"

using namespace xfer;

namespace {

void check(std::string_view text) {
    Result<Uri> uri = parse_uri(text);
    if (!uri) {
        REQUIRE(!uri.error().message.empty());
        REQUIRE(uri.error().status == XFER_EADDR || uri.error().status == XFER_EUNSUPPORTED);
        return;
    }
    REQUIRE(text.size() <= 255);
    REQUIRE(uri->port_low <= uri->port_high);
    REQUIRE(uri->host.empty() != uri->path.empty());
    Result<Uri> again = parse_uri(to_string(*uri));
    REQUIRE(again);
    REQUIRE(again->scheme == uri->scheme);
    REQUIRE(again->host == uri->host);
    REQUIRE(again->path == uri->path);
    REQUIRE(again->port_low == uri->port_low);
    REQUIRE(again->port_high == uri->port_high);
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(data), size);
    check(text);
    const std::vector<std::string> parts = split_list(text);
    for (const std::string &part : parts) {
        REQUIRE(part.find(',') == std::string::npos);
        check(part);
    }
    if (std::ranges::none_of(parts, &std::string::empty)) REQUIRE(join_list(parts) == text);
    return 0;
}
