// SPDX-License-Identifier: Apache-2.0
// Handshake messages: whatever is accepted is within the bounds, and means the same when it is sent
// on.
#include "wire/hello.h"

#include "require.h"

using namespace xfer;

namespace {

std::vector<uint8_t> whole(const Hello &hello) {
    std::vector<uint8_t> message = encode_hello(hello);
    if (message[7] != 0) append_proof(message, hello.proof);
    return message;
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    const ConstBytes message(data, size);
    REQUIRE(without_proof(message).size() <= size);
    Result<Hello> hello = decode_hello(message);
    if (size < kHelloHeader) {
        REQUIRE(!hello);
        return 0;
    }
    Result<HelloHeader> header = decode_hello_header(data);
    if (!hello) return 0;

    REQUIRE(header);
    REQUIRE(header->kind == hello->kind);
    REQUIRE(header->length + kHelloHeader == size);
    REQUIRE(size <= kMaxHello);
    REQUIRE(hello->terms.blob.size() <= kMaxBlob);
    REQUIRE(hello->terms.listens.size() <= kMaxListenUris);
    REQUIRE(hello->terms.transports.size() <= kMaxTransports);

    const std::vector<uint8_t> sent = whole(*hello);
    Result<Hello> again = decode_hello(sent);
    REQUIRE(again);
    REQUIRE(whole(*again) == sent);
    return 0;
}
