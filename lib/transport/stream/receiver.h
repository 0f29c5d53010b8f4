// SPDX-License-Identifier: Apache-2.0
// The way in. Headers are gathered in a small buffer; a payload is received straight to where it
// belongs, and the system call that takes its rest takes the headers behind it too.
#pragma once

#include <optional>

#include "transport/stream/byte_stream.h"
#include "transport/stream/stream_state.h"
#include "wire/crc32c.h"

namespace xfer::stream {

class Receiver {
public:
    enum class Read { drained, more, ended };

    explicit Receiver(StreamState &both) : both_(both) {}
    ~Receiver();

    // Receives until the byte stream is empty or others have their turn, and calls the sink. After
    // `ended`, failure() says why; a channel that was closed or detached meanwhile reads no
    // further.
    Read read(ByteStream &carrier, uint64_t &last_heard, uint64_t now);
    const Failure &failure() const { return failure_; }

    // Nothing is half received: what the peer wants to say next, it has not begun to say.
    bool idle() const { return payload_ == Payload::none && !staging_; }
    // Bytes that came and were not looked at, for another channel to go on with.
    std::vector<uint8_t> take_unread();
    void put_unread(ConstBytes bytes);
    bool has_unread() const { return staging_ != nullptr; }
    // Goes through what is staged; false: the peer broke the protocol, see failure().
    bool parse();
    void settle();  // an empty buffer is of use to others

    void cancel(const Op &op);
    void retire(Target target, Status why);
    void discard(NotificationId notification);
    void abandon() { drop_staged(); }  // nothing is received any more

private:
    enum class Payload : uint8_t { none, put, data };

    bool step(bool &progress);
    bool read_hello(bool &progress);
    bool read_frame(bool &progress);
    bool on_put(const Frame &frame, const uint8_t *access);
    bool on_get(const Frame &frame, const uint8_t *access);
    bool on_atomic(const Frame &frame, const uint8_t *body);
    bool on_data(const Frame &frame, const uint8_t *head);
    Status ask_access(Dir dir, const Frame &frame, const uint8_t *access, std::vector<iovec> &out);
    bool read_pieces(const Frame &frame, const uint8_t *access, uint64_t bytes);

    void begin_payload(Payload payload, uint32_t bytes);
    void copy_staged();
    bool is_there(const void *address, size_t bytes);
    void advance(size_t bytes);
    void finish_payload();
    bool intact() const;
    size_t receive_vectors();
    bool lose_memory();
    void drop_staged();
    void make_room();
    bool broken(Status status, const char *message);

    StreamState &both_;
    std::unique_ptr<Staging> staging_;
    Payload payload_ = Payload::none;
    bool discard_ = false;             // nobody wants the payload
    Status refused_ = XFER_OK;         // a put: what it is answered with
    uint64_t notification_ = 0;        // a put: whose data it is, 0: nobody is told
    StagedRequest *staged_ = nullptr;  // of a put; or until its answer waits
    uint32_t left_ = 0;                // of the payload
    uint32_t bytes_ = 0;               // of the payload, in all
    Frame frame_;                      // whose payload it is
    Op *op_ = nullptr;                 // data: the get or atomic
    uint32_t due_ = 0;                 // checksum that the payload must have, if it has one
    Crc32c sum_;                       // of the payload so far
    Failure failure_;
};

}  // namespace xfer::stream
