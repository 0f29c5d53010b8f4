// SPDX-License-Identifier: Apache-2.0
// The bounds of what may travel. Both ends must agree on them; a peer that goes past one broke the
// protocol.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xfer {

constexpr size_t kMaxHello = 8192;  // bytes of one handshake message, its header included
constexpr size_t kMaxBlob = 1024;   // of an application or a region
constexpr size_t kMaxName = 255;    // of a region
constexpr size_t kMaxUri = 255;
constexpr size_t kMaxListenUris = 8;  // that a peer advertises
constexpr size_t kMaxQuestions = 8;   // lookups that a proof brings along
constexpr uint64_t kMaxNotifications =
    256;  // of one connection, begun and not had by the application
constexpr uint32_t kMaxNotifyData = 1024;      // bytes of a notification
constexpr uint64_t kNotificationSpan = 4'096;  // from the oldest that is open to the newest
constexpr uint64_t kMaxMessageBytes = INT64_MAX;
constexpr uint64_t kMaxMessages = 1'024;  // of one connection and direction, sent and not completed
constexpr uint64_t kMaxHeld = 256 * 1024;  // payload that came along with them
constexpr size_t kMinKey = 32, kMaxKey = 256;

// The numbers of the lanes that take the control channel over: through memory that both ends share,
// and by adapters.
constexpr uint32_t kLocalLane = 255, kAttachedLane = 254;
constexpr uint32_t kMaxChunk = 256 * 1024;  // payload bytes of one put, get or data frame
constexpr uint32_t kMaxPieces = 512;        // ranges of one put or get frame
constexpr uint32_t kMaxControl = 4096;      // bytes after the header of a control frame
constexpr size_t kMaxExportKey = 128;       // by which a peer reaches a region by itself
constexpr size_t kMaxSignal = 1024;         // between the two ends of a path beside the channels
constexpr uint32_t kMaxInline = 4088;       // payload of a message that travels with it
// The numbers of the paths beside the channels begin with the first of these.
constexpr uint32_t kFirstAttached = 256, kMaxAttached = 16;

// Control frames that wait for a peer to read. Past the first no more is read of what it says, so
// that answers stop; the second holds all that is said unasked: the end of every region that one
// connection is told of or has a key of, and the answer to every lookup that waits.
constexpr uint64_t kControlPause = 64 * 1024;
constexpr uint64_t kMaxControlWaiting = 16 * 1024 * 1024;
constexpr uint64_t kUnreadMs = 5'000;  // without a byte that leaves: the peer does not read
// How long the end of a link waits until its bye has arrived, and how often it looks whether.
constexpr uint64_t kLingerMs = 1'000, kLingerLookMs = 10;

}  // namespace xfer
