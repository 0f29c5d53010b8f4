// SPDX-License-Identifier: Apache-2.0
// The way out. Control bytes, answers and operations are gathered, in this order, into a batch:
// headers in a buffer, payloads where they are. A batch leaves whole before the next one is made.
#pragma once

#include <optional>
#include <utility>

#include "transport/stream/byte_stream.h"
#include "transport/stream/stream_state.h"
#include "wire/limits.h"

namespace xfer::stream {

class Sender {
public:
    enum class Sent { all, blocked, more, failed };

    explicit Sender(StreamState &both) : both_(both) {}
    ~Sender() { release(); }

    // False: too much is waiting.
    bool control(ConstBytes head, ConstBytes body);
    // The same, and it goes right away. False: something is before it.
    bool control_now(ByteStream &carrier, ConstBytes head, ConstBytes body);
    // What waits of it goes right away, unless a batch is still on its way. Also while reading.
    void send_control(ByteStream &carrier);
    // Out of the handshake's or our own hand: always taken.
    void append(ConstBytes bytes);
    Sent send(ByteStream &carrier);
    int error() const { return error_; }
    bool failed() const { return error_ != 0; }
    bool empty() const { return !batch_ && waiting() == 0; }
    size_t waiting() const { return control_ ? control_->size() - control_at_ : 0; }  // of control
    uint64_t left() const { return left_; }  // bytes, since the beginning

    // What still has to leave of an operation is taken from elsewhere: its memory is quiet.
    void blank(const Op &op);
    // True if nothing of the region is on its way out; else quiet() tells when.
    bool retire(Target target);
    bool has_quiet() const { return !quiet_.empty(); }
    std::vector<Target> take_quiet() { return std::move(quiet_); }
    // Memory of a peer's get was not there. Where nothing tells the peer so, error() is EFAULT.
    std::optional<Target> take_unmapped() { return std::exchange(unmapped_, std::nullopt); }
    bool has_unmapped() const { return unmapped_.has_value(); }
    void abandon();  // nothing leaves any more

private:
    bool wants() const;
    bool only_control() const;
    bool write_control(ByteStream &carrier);  // false: not all of it
    bool full() const;
    void build();
    void add_control();
    void drop_control(size_t bytes);
    void add_response(const Response &answer);
    void add_operation(Op &op);
    void add_atomic(Op &op, uint64_t offset);
    uint8_t *add_notify(const Op &op);
    void advance(size_t bytes);
    bool step_over();
    void blank(const GatherBatch::Part &part);
    void fail_without_memory();  // nothing leaves any more
    void release();

    StreamState &both_;
    std::unique_ptr<std::vector<uint8_t>> control_;  // null: nothing waits
    size_t control_at_ = 0;                          // the first that has not left
    uint64_t left_ = 0;
    std::unique_ptr<GatherBatch> batch_;
    std::vector<Target> leaving_;  // retired, of which the batch still has something
    std::vector<Target> quiet_;
    std::optional<Target> unmapped_;
    int error_ = 0;
};

}  // namespace xfer::stream
