// SPDX-License-Identifier: Apache-2.0
// What a peer says of its adapter: whatever is read is within the bounds, and means the same when
// it is written and read again.
#include <algorithm>

#include "require.h"
#include "transport/rdma/export_key.h"
#include "transport/rdma/packet_signal.h"
#include "transport/rdma/signal.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

void check_signal(ConstBytes bytes) {
    auto read = decode_signal(bytes);
    if (!read) return;
    const SignalBytes written = encode(*read);
    REQUIRE(written.size() == bytes.size());
    auto again = decode_signal({written.begin(), written.size()});
    REQUIRE(again);
    const SignalBytes same = encode(*again);
    REQUIRE(std::equal(written.begin(), written.end(), same.begin(), same.end()));
}

void check_key(ConstBytes bytes) {
    const auto read = decode_region_keys(bytes);
    if (!read) return;
    const uint64_t last = read->length - 1;
    REQUIRE(read->base + last >= read->base);
    REQUIRE(last / read->part_bytes + 1 == read->keys.size());
    const ExportKey written = encode(*read);
    REQUIRE(written.size() == bytes.size());
    const auto again = decode_region_keys({written.begin(), written.size()});
    REQUIRE(again);
    const ExportKey same = encode(*again);
    REQUIRE(std::equal(written.begin(), written.end(), same.begin(), same.end()));
}

void check_packet_signal(ConstBytes bytes) {
    auto read = decode_packet_signal(bytes);
    if (!read) return;
    REQUIRE(read->offset + read->bytes.size() <= read->length);
    const PacketSignalBytes written = encode(*read);
    REQUIRE(written.size() == bytes.size());
    auto again = decode_packet_signal({written.begin(), written.size()});
    REQUIRE(again);
    const PacketSignalBytes same = encode(*again);
    REQUIRE(std::equal(written.begin(), written.end(), same.begin(), same.end()));
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    check_signal({data, size});
    check_key({data, size});
    check_packet_signal({data, size});
    return 0;
}
