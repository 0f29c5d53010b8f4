// SPDX-License-Identifier: Apache-2.0
// Memory that a channel needs only while bytes are under way. The channels of a transport take
// turns with it, so an idle channel holds none, and a busy loop works on few buffers, which stay in
// the cache.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "transport/stream/answers.h"
#include "transport/transport.h"

namespace xfer::stream {

constexpr size_t kStagingBytes = 16 * 1024;
constexpr size_t kHeadBytes = 32 * 1024;
constexpr size_t kLargestNotify = Frame::kSize + kMaxNotifyData + kCountBytes;  // behind a put
constexpr size_t kLargestRequestHead =
    Frame::kSize + access_length(kMaxPieces, kNotified | kChecked) + kLargestNotify;
static_assert(kStagingBytes >= kLargestRequestHead && kStagingBytes >= kMaxHello &&
              kStagingBytes >= Frame::kSize + kMaxControl);
static_assert(kHeadBytes >= 2 * kLargestRequestHead);

// What has arrived and is not yet understood, and where the rest of a payload goes.
struct Staging {
    uint8_t bytes[kStagingBytes];
    size_t begin = 0, end = 0;
    std::vector<iovec> into;
    size_t into_at = 0;

    size_t size() const { return end - begin; }
    uint8_t *data() { return bytes + begin; }
};

// What goes out together: headers in `head`, payloads where they are.
struct GatherBatch {
    // An operation or an answer with payload: its vectors, and where it lies in the batch.
    struct Part {
        Op *op;             // null: an answer, or one that has left and what follows it has not
        uint64_t region;    // of an answer
        bool checked;       // an answer with a checksum
        size_t begin, end;  // in bytes of the batch
        size_t first_vector, end_vector;  // of its payload
        size_t notify_at;                 // where what follows it begins: a notify,
        uint8_t *awaited;                 // of which these are the last bytes; null: there is none
        StagedRequest *staged = nullptr;  // an answer whose payload is there
    };
    uint8_t head[kHeadBytes];
    size_t head_used = 0;
    std::vector<iovec> vectors;
    std::vector<Part> parts;
    size_t bytes = 0, sent = 0;
    size_t vector_at = 0;   // the first with bytes left
    size_t started_at = 0;  // the first part of which nothing left
    size_t part_at = 0;     // the first part that has not left whole
    bool singly = false;    // vector by vector: some memory of it is not there

    uint8_t *add_head(size_t size);
    void add_payload(const void *base, size_t size);
    size_t head_room() const { return kHeadBytes - head_used; }
    void clear();
};

// Takes back what it lends, and keeps a few.
template <typename T>
class BufferPool {
public:
    std::unique_ptr<T> take() {
        if (free_ == 0) return std::make_unique_for_overwrite<T>();
        return std::move(kept_[--free_]);
    }
    void give(std::unique_ptr<T> one) {
        if (free_ < kKept) kept_[free_++] = std::move(one);
    }

private:
    static constexpr size_t kKept = 4;
    std::unique_ptr<T> kept_[kKept];
    size_t free_ = 0;
};

struct Buffers {
    BufferPool<Staging> stagings;
    BufferPool<GatherBatch> bursts;
    BufferPool<std::vector<uint8_t>> controls;  // empty
    BufferPool<Answers> answers;                // empty
    // For the time of one step.
    std::vector<Piece> pieces;
    std::vector<WirePiece> wire_pieces;
    std::vector<iovec> vectors;
};

}  // namespace xfer::stream
