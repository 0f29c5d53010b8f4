// SPDX-License-Identifier: Apache-2.0
// All that core knows about moving bytes. A Transport belongs to one loop and makes Links; a Link
// is one path of bytes to one peer. It first carries the messages of a handshake; once start() was
// called it carries control frames and operations. Thread: every method and every sink call is on
// the loop's thread. Errors are values. No sink call is made from inside a method, but on_access,
// which is made while a request is being read.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loop/loop.h"
#include "transport/pieces.h"
#include "transport/source.h"
#include "util/fd.h"
#include "util/list.h"
#include "util/status.h"
#include "util/uri.h"
#include "wire/frame.h"

namespace xfer {

// What a request must know of a region to touch it.
struct Access {
    uint64_t region = 0;  // as on the wire
    uint32_t generation = 0;
    uint64_t key = 0;
    // Of a put whose batch notifies: numbered from 1 on its connection, 0: none.
    uint64_t notification = 0;
    uint64_t notification_key = 0;
    Target target() const { return Target::from_wire(region); }
};

// How the bytes of an operation moved: as frames, or copied by its initiator within one process,
// into memory that it has mapped, or by the kernel.
enum class Moved : uint8_t { frames, process, mapped, kernel };
constexpr size_t kMovedWays = 4;

struct InTransfer;  // list tags of an Op
struct InLink;

// One chunk under way: at most kMaxChunk bytes in at most kMaxPieces ranges of one region; or an
// atomic, of one piece, of which a link leaves the local side alone: what it brings back stands in
// the op, so that no cancel need keep the link from it. Owned by core, lent to one link from post()
// to on_done().
struct Op : ListNode<InTransfer>, ListNode<InLink> {
    Dir dir = Dir::put;
    bool last = false;      // of its transfer: the answer is wanted at once
    bool sent = false;      // the peer may have seen some of it
    bool canceled = false;  // local memory must not be touched any more
    bool unmapped = false;  // local memory is not there: whatever the answer, it has failed
    Moved moved = Moved::frames;
    bool checked = false;  // with a checksum, where the link can lose something on the way
    uint32_t bytes = 0;
    uint32_t pieces = 0;
    Access remote;
    const PieceList *list = nullptr;
    Cursor begin, end;         // of it in the list
    Atomic atomic;             // of an atomic: what it does,
    uint64_t before = 0;       // and once it is done well, what was there
    uint64_t seq = 0;          // the link's
    void *transfer = nullptr;  // core's: null once nobody waits for the answer
    void *lane = nullptr;      // core's

    void draw(std::vector<Piece> &out) const {
        Cursor at = begin;
        list->draw(at, kMaxChunk, kMaxPieces, out);
    }
};

// Memory of ours that a neighbour reaches by itself until it is retired.
struct Reach {
    uint8_t *base = nullptr;
    uint64_t length = 0;
    uint32_t access = 0;
    // A memory that can be mapped, if it lies in one: its number, its descriptor, and where in it.
    MemoryId memory;
    int fd = -1;
    uint64_t offset = 0;
};

// A memory that was made with a region has its number, and ends with it.
inline MemoryId memory_of(RegionId region) {
    return {region.value};
}

class LinkSink {
public:
    virtual void on_up() = 0;                       // of a dialed link: it can carry the handshake
    virtual void on_hello(ConstBytes message) = 0;  // one whole handshake message
    virtual void on_control(const Frame &frame, ConstBytes body) = 0;
    virtual void on_done(Op &op, Status status) = 0;  // exactly once per posted op
    // Checks a peer's request and turns its ranges into local ones, in order; all or nothing.
    virtual Status on_access(Dir dir, const Access &access, std::span<const WirePiece> pieces,
                             std::vector<iovec> &out) = 0;
    // A neighbour wants to reach a region by itself: as on_access, for all of it.
    virtual Status on_reach(const Access &access, Reach &out) = 0;
    // A peer's request was applied or answered.
    virtual void on_served(Dir dir, uint64_t bytes) = 0;
    virtual void on_quiet(Target target) = 0;  // what retire() had to wait for has ended
    // Memory of the region or message, which the peer reads or writes, is not mapped any more.
    virtual void on_unmapped(Target target) = 0;
    // Before on_down: puts of that notification were copied by the neighbour itself, or were about
    // to be.
    virtual void on_notification_begun(NotificationId notification, uint64_t key) = 0;
    virtual void on_down(
        const Failure &why) = 0;  // exactly once, last, after on_done of every posted op

protected:
    ~LinkSink() = default;
};

// A link between two loops: it was detached from one and not yet adopted by another.
struct DetachedLink {
    Fd fd;
    std::vector<uint8_t> unread;
    std::string remote;
};

class Link {
public:
    virtual ~Link() = default;  // after on_down or detach, and not inside a call from this link
    virtual void set_sink(LinkSink &sink) = 0;
    virtual std::string remote() const = 0;  // the other end, as a URI
    // Bytes are copied between two memories: no other link to the same peer is better.
    virtual bool is_local() const { return false; }

    virtual void send_hello(ConstBytes message) = 0;
    virtual DetachedLink detach() = 0;  // before start(): stops without on_down
    // The handshake is over; the peer lets us have max_ops posted, and we let it have serve_ops.
    // From now on we may speak,
    virtual void start(uint32_t max_ops, uint32_t serve_ops) = 0;
    virtual void hear() = 0;  // and from now on the peer is heard

    // False: too much is waiting already. A link that ends forgets what it takes; its end tells.
    // Before start() only a bye, of an initiator that leaves.
    virtual bool send(const Frame &frame, ConstBytes body) = 0;
    virtual bool post(Op &op) = 0;  // false: full until some on_done, or it is down
    virtual void flush() = 0;       // sends what was posted
    // Withdraws. True: local memory is quiet now, and `canceled` says so; on_done still comes, when
    // nothing of it can land any more: of an atomic with XFER_OK if it was done. False: it is in
    // use, for a short time at most: the link ends that, if it must by its own end, and on_done
    // tells it.
    virtual bool cancel(Op &op) = 0;
    // The region or the message has ended: nothing of it is read or written any more, and requests
    // that were under way are refused with `why`. False: some of it is on its way out; on_quiet
    // follows, once, and before on_down.
    virtual bool retire(Target target, Status why) = 0;
    // That notification of the peer's has ended: what still comes of a put of it is thrown away.
    virtual void discard(NotificationId notification) = 0;
    virtual void close(
        const Failure &why) = 0;  // asynchronous; what was sent before still leaves if it can
    virtual uint64_t last_heard() const = 0;  // time of the last byte from the peer
};

class AcceptSink {
public:
    // Asked before a link is made of a socket that was accepted. False: it is closed, with these
    // words.
    virtual bool admits(const Source &source) = 0;
    virtual ConstBytes refusal() const = 0;
    // There are more newcomers than are let in: they may wait for each other.
    virtual bool under_pressure() = 0;
    virtual void on_accept(std::unique_ptr<Link> link, const Source &source) = 0;
    // Descriptors or memory have run out: ends one that is not needed, if there is one.
    virtual bool shed() = 0;

protected:
    ~AcceptSink() = default;
};

class Listener {
public:
    virtual ~Listener() = default;
    // URIs that can be dialed, at least one: of a wildcard one for each interface.
    virtual std::vector<std::string> dialable() const = 0;
    std::string bound() const { return dialable().front(); }
};

class Transport {
public:
    virtual ~Transport() = default;  // after its last link and listener
    virtual std::string_view name() const = 0;
    virtual bool serves(const Uri &uri) const = 0;
    // `mode`: of the file of a UNIX socket; no other transport has one.
    virtual Result<std::unique_ptr<Listener>> listen(const Uri &uri, uint32_t mode,
                                                     AcceptSink &sink) = 0;
    virtual Result<std::unique_ptr<Link>> connect(const Uri &uri,
                                                  LinkSink &sink) = 0;  // later failures: on_down
    virtual std::unique_ptr<Link> adopt(DetachedLink ticket) = 0;
};

}  // namespace xfer
