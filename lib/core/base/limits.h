// SPDX-License-Identifier: Apache-2.0
// Every queue, count and wait inside an engine has its bound here; those of the wire are in
// wire/limits.h, those a user may change are in xfer_engine_options_t and start from the defaults
// below.
#pragma once

#include <cstdint>

#include "loop/loop.h"
#include "wire/limits.h"

namespace xfer {

// Defaults and ranges of the options.
constexpr uint32_t kDefaultStallMs = 30'000;
constexpr uint32_t kDefaultConnectMs = 5'000;
constexpr uint32_t kDefaultHeartbeatMs = 5'000;
constexpr uint32_t kDefaultIdleMs = 300'000;
constexpr uint32_t kDefaultLanes = 1, kMaxLanes = 16;
constexpr uint32_t kDefaultConnections = 1'024, kMaxConnections = 1'048'576;
constexpr uint32_t kDefaultOperations = 1'024, kMaxOperations = 1'048'576;
constexpr uint32_t kDefaultMode = 0600;  // of a UNIX socket's file
constexpr uint32_t kMaxIoThreads = 64;
constexpr uint32_t kMaxSpinUs = 1'000'000;
constexpr uint32_t kSpinCpus = 4;  // with fewer, who spins keeps from running who is waited for

// Objects.
constexpr uint32_t kMaxRegions = 1'048'576;   // of an engine, grants among them
constexpr uint64_t kMaxEntries = 1ull << 32;  // of one batch
constexpr uint32_t kMaxRemotes = 65'536;      // different refs in one batch
// Of one endpoint, that wait to be taken: PEER_UP, and as many ROOM; REGION_GONE. A PEER_DOWN is
// told if its PEER_UP was.
constexpr uint32_t kMaxNotices = 64, kMaxGoneNotices = 4'096;
constexpr size_t kMaxPeerUris = 64;            // of one endpoint, and in one list
constexpr uint64_t kHurryNs = 500 * kNsPerMs;  // for an attempt, once there is another address
constexpr uint64_t kBriefEntries = 64;         // of a batch that its submitter sends by itself
constexpr uint32_t kHeldSubmits = 16;          // small ones, until the next poll
constexpr uint32_t kEventsPerTurn = 256;       // callbacks between two looks at the sockets
constexpr uint32_t kCancelRequests = 256;  // on their way at once beside those of what is under way
constexpr uint64_t kSlowCallbackNs = 1'000 * kNsPerMs;  // a callback that blocks: logged, counted
// Without the end of a copy from or to a device, at most, until STALLED; less where the stall limit
// is less.
constexpr uint32_t kDeviceStallMs = 1'000;
// For a batch on a stream that was told to end to be quiet; then its stream goes on without it.
constexpr uint32_t kStreamPatienceMs = 1'000;

// One lane.
constexpr uint32_t kLaneOps = 64;            // unanswered puts and gets, each way
constexpr uint64_t kLaneWindow = 8u << 20;   // unanswered bytes
constexpr uint64_t kLocalWindow = 2u << 20;  // of the local path: what is small waits behind it
constexpr uint64_t kSmall = 64 * 1024;       // batches up to this stay on the control channel

// A path by which regions are reached without their owner.
constexpr uint32_t kMaxImports = 4'096;
constexpr uint32_t kMaxExportsAsked = 64;  // questions that wait for an answer
// How long a pull waits for the adapters to know the message; it goes by lanes then.
constexpr uint64_t kExportPatienceNs = 100 * kNsPerMs;

constexpr uint32_t kSpareNotifications = 1'024;  // of an engine, kept for the next ones

constexpr uint64_t kMaxCopy = 4'096;  // bytes of an operation that are copied when it begins

// Messages.
constexpr uint64_t kMessageWindow = 32 * 1024;  // bytes that the peer may not have looked at yet
constexpr uint32_t kMaxReceives = 65'536;       // posted and not ended, of one engine
constexpr uint32_t kRecentEnds = 16;  // of connections, whose cause a receive may still ask for
constexpr uint64_t kMaxHeldInEngine = 64u << 20;  // of messages that wait, from all peers
constexpr uint64_t kMaxHeldOfSender = 1u << 20;   // of one of them, over all its connections: twice
                                                  // what one connection may bring along
constexpr uint64_t kHeldMessage = 256;            // what one costs beside its payload
constexpr uint32_t kSpareEnvelopes = 256;         // of messages that wait, kept for the next ones,
constexpr uint32_t kKeptSenders = 64;             // and sums of senders of which none waits

// What a peer may make us hold.
// Half-open connections, and no more than this part of the descriptors that the process may have.
constexpr uint32_t kMaxHalfOpen = 1'024, kMinHalfOpen = 16;
constexpr uint32_t kHalfOpenPart = 4;
constexpr uint32_t kMaxWaiting = 1'024;   // lookups of one connection that wait for a name
constexpr uint32_t kMaxWatched = 65'536;  // regions of which one connection is told when they go

// Puts into memory of devices that are on their way there, beside bounce memory: of one loop, and
// of one connection, of which all lanes may be full.
constexpr uint64_t kMaxOwnBounce = 512u << 20, kMaxOwnBounceOfPeer = 160u << 20;

constexpr uint32_t kMaxDialing = 64;  // attempts of an engine under way at once

// Waits.
constexpr uint64_t kStrangerNs = 5'000 * kNsPerMs;  // to prove itself
// When all places of half-open connections are taken: none that is younger is displaced by a
// newcomer of its source (a round trip of a wide network, and the time of a process that is slow to
// answer), one that is older goes first, whatever its source.
constexpr uint64_t kHalfOpenGraceNs = 150 * kNsPerMs, kHalfOpenPressedNs = 1'000 * kNsPerMs;
constexpr uint64_t kHalfOpenBurstNs = 5 * kNsPerMs;     // of displacements within a source, at once
constexpr uint64_t kPressureEndsNs = 1'000 * kNsPerMs;  // after the last that was turned away
constexpr uint64_t kPressureLogNs = 60'000 * kNsPerMs;  // between two lines about it
// About half-open connections that were refused: lines in an interval, which others can provoke.
constexpr uint32_t kRefusalLines = 10;
constexpr uint64_t kRefusalLogNs = 60'000 * kNsPerMs;
constexpr uint64_t kWordsNs = 100'000;  // a loop stays awake for the next words of a handshake
constexpr uint64_t kBackoffFirstNs =
    20 * kNsPerMs;  // after the first failed attempt, doubled up to
constexpr uint64_t kBackoffLastNs = 2'000 * kNsPerMs;
constexpr uint64_t kLastingNs =
    100 * kNsPerMs;  // a connection that ends sooner, after another such, was a failed attempt
constexpr uint32_t kBusyMs = 50;  // what a busy engine asks for; who is asked takes no more than
constexpr uint64_t kBusyMostNs = 10'000 * kNsPerMs;
constexpr uint64_t kProbeNs =
    500 * kNsPerMs;  // for an old connection to answer when a newcomer has its name
constexpr uint64_t kGoodbyeNs =
    50 * kNsPerMs;  // for the goodbye of a connection that its peer has replaced
constexpr uint64_t kFenceNs =
    100 * kNsPerMs;  // for the owner to confirm a cancel, before MAYBE_APPLIED
constexpr uint64_t kRetireNs =
    1'000 * kNsPerMs;  // for a reader of a closing region to take its last chunk
constexpr uint64_t kLastWordsNs =
    200 * kNsPerMs;  // for the control channel to tell why another lane ended
constexpr uint64_t kSettledNs =
    500 * kNsPerMs;  // for the peer to say that its end of a lane is closed

// Of a heartbeat: how often an end looks for silence, after how much of it it asks for a sign of
// life, and after how much the peer is lost. With the step, that is told before two heartbeats are
// over.
constexpr uint64_t look_every(uint64_t heartbeat) {
    return heartbeat / 4;
}
constexpr uint64_t ask_after(uint64_t heartbeat) {
    return heartbeat / 2;
}
constexpr uint64_t lost_after(uint64_t heartbeat) {
    return heartbeat + heartbeat / 2;
}
// What is sent by a lane has a second to be acknowledged, though heartbeats are shorter: in that
// time TCP sends it again twice, after 200 and 600 ms of a short round trip.
constexpr uint64_t unacknowledged_after(uint64_t heartbeat) {
    return lost_after(heartbeat) < 1'000 * kNsPerMs ? 1'000 * kNsPerMs : lost_after(heartbeat);
}
// Of a silence that is too long: when an adapter is not waited for any more, so that the answer to
// a probe still comes, or to a ping, which is said when half of the silence is over.
constexpr uint64_t stalls_after(uint64_t silence) {
    return (silence / 2 < kProbeNs ? silence / 2 : kProbeNs) * 2 / 3;
}

}  // namespace xfer
