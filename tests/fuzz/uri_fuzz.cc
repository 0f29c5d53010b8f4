// SPDX-License-Identifier: Apache-2.0
// Addresses: whatever is accepted means the same when it is written and read again.
#include "util/uri.h"

#include "require.h"

using namespace xfer;

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    Result<Uri> uri = parse_uri({reinterpret_cast<const char *>(data), size});
    if (!uri) {
        REQUIRE(!uri.error().message.empty());
        return 0;
    }
    REQUIRE(size <= 255);
    REQUIRE(uri->port_low <= uri->port_high);
    REQUIRE(uri->host.empty() != uri->path.empty());
    Result<Uri> again = parse_uri(to_string(*uri));
    REQUIRE(again);
    REQUIRE(again->scheme == uri->scheme);
    REQUIRE(again->host == uri->host);
    REQUIRE(again->path == uri->path);
    REQUIRE(again->port_low == uri->port_low);
    REQUIRE(again->port_high == uri->port_high);
    return 0;
}
