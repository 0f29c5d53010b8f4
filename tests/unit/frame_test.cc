// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <random>

#include "xfer/xfer.h"

using namespace xfer;

namespace {

using Header = std::array<uint8_t, Frame::kSize>;

Header encoded(const Frame &frame) {
    Header header;
    encode(frame, header.data());
    return header;
}

bool sendable(FrameType type, uint32_t pieces, uint32_t length, int32_t status = 0,
              uint8_t flags = 0, uint64_t seq = 1) {
    Frame frame;
    frame.type = type;
    frame.pieces = static_cast<uint16_t>(pieces);
    frame.length = length;
    frame.status = status;
    frame.flags = flags;
    frame.seq = seq;
    return decode_frame(encoded(frame).data()).has_value();
}

}  // namespace

TEST_CASE("the bytes of a header never change") {
    const Frame frame{FrameType::put,     0x5a,       3, 56 + 100, 0x0807060504030201,
                      0x1817161514131211, 0x24232221, -5};
    const Header expected = {1,    0x5a, 3,    0,    156,  0,    0,    0,    1,    2,    3,
                             4,    5,    6,    7,    8,    0x11, 0x12, 0x13, 0x14, 0x15, 0x16,
                             0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0xfb, 0xff, 0xff, 0xff};
    CHECK(encoded(frame) == expected);
    const auto got = decode_frame(expected.data());
    REQUIRE(got);
    CHECK(got->type == frame.type);
    CHECK(got->flags == frame.flags);
    CHECK(got->pieces == frame.pieces);
    CHECK(got->length == frame.length);
    CHECK(got->seq == frame.seq);
    CHECK(got->region == frame.region);
    CHECK(got->generation == frame.generation);
    CHECK(got->status == frame.status);
}

TEST_CASE("pieces") {
    std::array<uint8_t, WirePiece::kSize> bytes;
    bytes.fill(0xee);
    encode(WirePiece{0x0807060504030201, 0x14131211}, bytes.data());
    CHECK(bytes ==
          std::array<uint8_t, 16>{1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0, 0, 0, 0});
    CHECK(decode_piece(bytes.data()).offset == 0x0807060504030201);
    CHECK(decode_piece(bytes.data()).length == 0x14131211);
    CHECK(access_length(1) == 24);
    CHECK(access_length(kMaxPieces) == 8 + 512 * 16);
    CHECK(access_length(3, kNotified) == 8 + 16 + 3 * 16);
    CHECK(access_length(3, kAckWanted) == access_length(3));
    CHECK(access_length(3, kNotified | kChecked) == 8 + 16 + 8 + 3 * 16);
}

TEST_CASE("puts at and past their bounds") {
    for (uint32_t pieces : {1u, 2u, kMaxPieces}) {
        const uint32_t least = access_length(pieces);
        CHECK_FALSE(sendable(FrameType::put, pieces, 0));
        CHECK_FALSE(sendable(FrameType::put, pieces, least - 1));
        CHECK(sendable(FrameType::put, pieces, least));
        CHECK(sendable(FrameType::put, pieces, least + kMaxChunk));
        CHECK_FALSE(sendable(FrameType::put, pieces, least + kMaxChunk + 1));
        CHECK_FALSE(sendable(FrameType::put, pieces, UINT32_MAX));
    }
    const uint32_t notified = access_length(2, kNotified);
    CHECK_FALSE(sendable(FrameType::put, 2, notified - 1, 0, kNotified));
    CHECK(sendable(FrameType::put, 2, notified, 0, kNotified));
    CHECK(sendable(FrameType::put, 2, notified + kMaxChunk, 0, kNotified));
    CHECK_FALSE(sendable(FrameType::put, 2, notified + kMaxChunk + 1, 0, kNotified));
    CHECK_FALSE(sendable(FrameType::put, 0, access_length(0)));
    CHECK_FALSE(sendable(FrameType::put, kMaxPieces + 1, access_length(kMaxPieces + 1)));
    CHECK_FALSE(sendable(FrameType::put, UINT16_MAX, access_length(UINT16_MAX)));
}

TEST_CASE("gets at and past their bounds") {
    for (uint32_t pieces : {1u, 2u, kMaxPieces}) {
        CHECK_FALSE(sendable(FrameType::get, pieces, access_length(pieces) - 1));
        CHECK(sendable(FrameType::get, pieces, access_length(pieces)));
        CHECK_FALSE(sendable(FrameType::get, pieces, access_length(pieces) + 1));
    }
    CHECK_FALSE(sendable(FrameType::get, 0, access_length(0)));
    CHECK_FALSE(sendable(FrameType::get, 1, access_length(1), 0, kNotified));
    CHECK_FALSE(sendable(FrameType::get, 1, access_length(1, kNotified), 0, kNotified));
    CHECK_FALSE(sendable(FrameType::get, kMaxPieces + 1, access_length(kMaxPieces + 1)));
}

TEST_CASE("atomics at and past their bounds") {
    for (int flags = 0; flags < 256; ++flags)
        CHECK(sendable(FrameType::atomic, 0, kAtomicBody, 0, static_cast<uint8_t>(flags)) ==
              (flags == 1 || flags == 2));
    CHECK_FALSE(sendable(FrameType::atomic, 1, kAtomicBody, 0, 1));
    CHECK_FALSE(sendable(FrameType::atomic, 0, kAtomicBody - 1, 0, 1));
    CHECK_FALSE(sendable(FrameType::atomic, 0, kAtomicBody + 1, 0, 1));
    CHECK_FALSE(sendable(FrameType::atomic, 0, 0, 0, 1));
    std::array<uint8_t, 24> body;
    encode(Atomic{AtomicOp::cas, 0x1817161514131211, 0x2827262524232221}, 0x0807060504030201,
           body.data());
    CHECK(body == std::array<uint8_t, 24>{1,    2,    3,    4,    5,    6,    7,    8,
                                          0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18,
                                          0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28});
}

TEST_CASE("the other types at and past their bounds") {
    CHECK(sendable(FrameType::data, 0, 0));
    CHECK(sendable(FrameType::data, 0, kMaxChunk));
    CHECK_FALSE(sendable(FrameType::data, 0, kMaxChunk + 1));
    CHECK_FALSE(sendable(FrameType::data, 1, 0));
    CHECK_FALSE(sendable(FrameType::data, 0, kChecksumBytes - 1, 0, kChecked));
    CHECK(sendable(FrameType::data, 0, kChecksumBytes, 0, kChecked));
    CHECK(sendable(FrameType::data, 0, kChecksumBytes + kMaxChunk, 0, kChecked));
    CHECK_FALSE(sendable(FrameType::data, 0, kChecksumBytes + kMaxChunk + 1, 0, kChecked));
    CHECK(sendable(FrameType::get, 1, access_length(1), 0, kChecked));
    CHECK_FALSE(sendable(FrameType::put, 1, access_length(1, kChecked) - 1, 0, kChecked));
    CHECK(sendable(FrameType::put, 1, access_length(1, kChecked) + kMaxChunk, 0, kChecked));
    CHECK_FALSE(
        sendable(FrameType::put, 1, access_length(1, kChecked) + kMaxChunk + 1, 0, kChecked));

    for (FrameType type : {FrameType::ack, FrameType::ping, FrameType::pong, FrameType::lanes,
                           FrameType::forget, FrameType::lane_closed}) {
        CAPTURE(static_cast<int>(type));
        CHECK(sendable(type, 0, 0));
        CHECK_FALSE(sendable(type, 1, 0));
        CHECK_FALSE(sendable(type, 0, 1));
        CHECK_FALSE(sendable(type, 0, 0, -1));
        CHECK_FALSE(sendable(type, 0, 0, 1));
    }
    for (FrameType type : {FrameType::error, FrameType::bye}) {
        CAPTURE(static_cast<int>(type));
        CHECK(sendable(type, 0, 0, XFER_EACCESS));
        CHECK_FALSE(sendable(type, 0, 0, XFER_OK));
        CHECK_FALSE(sendable(type, 0, 0, 1));
        CHECK_FALSE(sendable(type, 0, 1, XFER_EACCESS));
        CHECK_FALSE(sendable(type, 1, 0, XFER_EACCESS));
    }
    CHECK(sendable(FrameType::noted, 0, 0));
    CHECK_FALSE(sendable(FrameType::noted, 1, 0));
    CHECK_FALSE(sendable(FrameType::noted, 0, 1));
    CHECK_FALSE(sendable(FrameType::noted, 0, 0, -1));
    for (uint64_t seq : {0, 1, 2})
        CHECK(sendable(FrameType::drain, 0, 0, 0, 0, seq) == (seq < 2));
    CHECK_FALSE(sendable(FrameType::drain, 1, 0));
    CHECK_FALSE(sendable(FrameType::drain, 0, 1));
    CHECK_FALSE(sendable(FrameType::drain, 0, 0, -1));
    for (int32_t status : {0, -1}) {
        CHECK(sendable(FrameType::notify, 0, 0, status));
        CHECK_FALSE(sendable(FrameType::notify, 1, 0, status));
        CHECK(sendable(FrameType::notify, 0, 1, status) == (status == 0));
        CHECK(sendable(FrameType::notify, 0, kMaxNotifyData, status) == (status == 0));
        CHECK_FALSE(sendable(FrameType::notify, 0, kMaxNotifyData + 1, status));
    }
    for (const uint32_t length : {0u, 7u, 8u, 8 + kMaxNotifyData, 9 + kMaxNotifyData}) {
        CHECK(sendable(FrameType::notify, 0, length, 0, kCounted) ==
              (length >= 8 && length <= 8 + kMaxNotifyData));
        CHECK_FALSE(sendable(FrameType::notify, 0, length, -1, kCounted));
    }
    CHECK_FALSE(sendable(FrameType::notify, 0, 0, 1));
    CHECK_FALSE(sendable(FrameType::notify, 0, 0, 0, 0, 0));

    CHECK(sendable(FrameType::message, 0, 0));
    CHECK(sendable(FrameType::message, 0, kMaxControl));
    CHECK_FALSE(sendable(FrameType::message, 0, kMaxControl + 1));
    CHECK_FALSE(sendable(FrameType::message, 1, 0));
    CHECK_FALSE(sendable(FrameType::message, 0, 0, -1));
    CHECK_FALSE(sendable(FrameType::message, 0, 0, 0, 0, 0));
    CHECK_FALSE(sendable(FrameType::message, 0, kChecksumBytes - 1, 0, kChecked));
    CHECK(sendable(FrameType::message, 0, kChecksumBytes, 0, kChecked));
    for (uint32_t length : {0u, 7u, 9u})
        CHECK_FALSE(sendable(FrameType::message, 0, length, 0, kEnvelope));
    CHECK(sendable(FrameType::message, 0, 8, 0, kEnvelope));
    CHECK(sendable(FrameType::message, 0, 8, 0, kEnvelope | kChecked));
    CHECK(kMaxInline + kChecksumBytes == kMaxControl);
    for (FrameType type : {FrameType::queued, FrameType::completed, FrameType::cancel}) {
        CAPTURE(static_cast<int>(type));
        CHECK(sendable(type, 0, 0));
        CHECK(sendable(type, 0, 0, -1) == (type == FrameType::completed));
        CHECK_FALSE(sendable(type, 0, 0, 1));
        CHECK_FALSE(sendable(type, 1, 0));
        CHECK_FALSE(sendable(type, 0, 1));
        CHECK_FALSE(sendable(type, 0, 0, 0, 0, 0));
    }

    CHECK(sendable(FrameType::path_signal, 0, 1));
    CHECK(sendable(FrameType::path_signal, 0, kMaxSignal));
    CHECK_FALSE(sendable(FrameType::path_signal, 0, kMaxSignal + 1));
    CHECK_FALSE(sendable(FrameType::path_signal, 0, 0));
    CHECK(sendable(FrameType::path_signal, 0, 0, -1));
    CHECK_FALSE(sendable(FrameType::path_signal, 0, 1, -1));
    CHECK_FALSE(sendable(FrameType::path_signal, 0, 1, 1));
    CHECK_FALSE(sendable(FrameType::path_signal, 1, 1));
    CHECK_FALSE(sendable(FrameType::path_signal, 0, 1, 0, 0, 0));

    CHECK(sendable(FrameType::request_export, 0, 8));
    CHECK_FALSE(sendable(FrameType::request_export, 0, 7));
    CHECK_FALSE(sendable(FrameType::request_export, 0, 9));
    CHECK_FALSE(sendable(FrameType::request_export, 1, 8));
    CHECK_FALSE(sendable(FrameType::request_export, 0, 8, -1));
    CHECK(sendable(FrameType::exported, 0, 0));
    CHECK(sendable(FrameType::exported, 0, kMaxExportKey));
    CHECK_FALSE(sendable(FrameType::exported, 0, kMaxExportKey + 1));
    CHECK(sendable(FrameType::exported, 0, 0, XFER_ESTALE));
    CHECK_FALSE(sendable(FrameType::exported, 0, 1, XFER_ESTALE));
    CHECK_FALSE(sendable(FrameType::exported, 0, 0, 1));
    CHECK_FALSE(sendable(FrameType::exported, 1, 0));
    CHECK(sendable(FrameType::withdraw, 0, 0));
    CHECK_FALSE(sendable(FrameType::withdraw, 0, 1));
    CHECK_FALSE(sendable(FrameType::withdraw, 1, 0));
    CHECK_FALSE(sendable(FrameType::withdraw, 0, 0, -1));

    CHECK_FALSE(sendable(FrameType::lookup, 0, 0));
    CHECK(sendable(FrameType::lookup, 0, 1));
    CHECK(sendable(FrameType::lookup, 0, kMaxName));
    CHECK_FALSE(sendable(FrameType::lookup, 0, kMaxName + 1));
    CHECK_FALSE(sendable(FrameType::lookup, 1, 1));

    CHECK(sendable(FrameType::found, 0, 96));
    CHECK(sendable(FrameType::found, 0, 0, XFER_ENOTFOUND));
    CHECK(sendable(FrameType::found, 0, kMaxControl));
    CHECK_FALSE(sendable(FrameType::found, 0, kMaxControl + 1));
    CHECK_FALSE(sendable(FrameType::found, 0, 96, 1));
    CHECK_FALSE(sendable(FrameType::found, 1, 96));

    CHECK(sendable(FrameType::gone, 0, sizeof(xfer_ref_t)));
    CHECK_FALSE(sendable(FrameType::gone, 0, 0));
    CHECK_FALSE(sendable(FrameType::gone, 0, sizeof(xfer_ref_t) - 1));
    CHECK_FALSE(sendable(FrameType::gone, 0, sizeof(xfer_ref_t) + 1));
    CHECK_FALSE(sendable(FrameType::gone, 1, sizeof(xfer_ref_t)));
}

TEST_CASE("unknown types are refused") {
    for (int type = 0; type < 256; type++) {
        const bool atomic = type == static_cast<int>(FrameType::atomic);  // has another length
        const bool known = type >= 1 && type <= 28 && !atomic;
        bool any = false;
        for (uint32_t pieces : {0u, 1u}) {
            for (uint32_t length : {0u, 1u, 8u, access_length(1), uint32_t{sizeof(xfer_ref_t)}}) {
                for (int32_t status : {0, -1})
                    any |= sendable(static_cast<FrameType>(type), pieces, length, status);
            }
        }
        CAPTURE(type);
        CHECK(any == known);
    }
}

TEST_CASE("100,000 mutations: what decodes keeps the bounds and encodes to the same bytes") {
    std::mt19937_64 random(20240602);
    size_t accepted = 0;
    for (int round = 0; round < 100000; round++) {
        Frame frame;
        frame.type = static_cast<FrameType>(1 + random() % 20);
        frame.pieces = frame.type <= FrameType::get ? 2 : 0;
        frame.length = frame.pieces ? access_length(2) : 0;
        Header header = encoded(frame);
        for (auto changes = random() % 4; changes > 0; changes--) {
            header[random() % header.size()] = static_cast<uint8_t>(random());
        }
        const auto got = decode_frame(header.data());
        if (!got) continue;
        accepted++;
        REQUIRE(got->status >= XFER_EINTERNAL);
        const Header again = encoded(*got);  // but for a status that nobody knows
        REQUIRE(std::equal(again.begin(), again.end() - sizeof got->status, header.begin()));
        REQUIRE(got->pieces <= kMaxPieces);
        REQUIRE(got->length <= access_length(kMaxPieces, kNotified | kChecked) + kMaxChunk);
    }
    CHECK(accepted > 10000);
    CHECK(accepted < 90000);
}

TEST_CASE("a status that nobody knows is one that says so") {
    Frame frame;
    frame.type = FrameType::bye;
    uint8_t bytes[Frame::kSize];
    for (int32_t said :
         {int32_t{XFER_EINTERNAL}, int32_t{XFER_EINTERNAL} - 1, -1'000'000, INT32_MIN}) {
        frame.status = said;
        encode(frame, bytes);
        auto got = decode_frame(bytes);
        REQUIRE(got);
        CHECK(got->status == (said == XFER_EINTERNAL ? XFER_EINTERNAL : XFER_EPROTO));
    }
}
