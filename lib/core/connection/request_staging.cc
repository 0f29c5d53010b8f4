// SPDX-License-Identifier: Apache-2.0
#include "core/connection/request_staging.h"

#include <memory>
#include <utility>

#include "core/base/limits.h"
#include "core/connection/connection.h"
#include "core/connection/staging.h"
#include "util/memory.h"

namespace xfer {

namespace {

// Slots that puts leave to gets, which have nothing else.
constexpr uint32_t kKeptForGets = kBounceSlots / 4;

}  // namespace

class RequestStaging::Request final : public StagedRequest,
                                      public ListNode<>,
                                      public ListNode<InRequestStaging>,
                                      Copier::Copy {
public:
    Request(RequestStaging &staging, Rail &rail, Dir dir, const Access &access,
            const Memory &memory, const std::vector<iovec> &ranges);

    ~Request() { leave_room(); }

    bool is_of(const Connection &connection, Target target) const {
        return &rail_.lane.connection == &connection && target_ == target;
    }
    const Connection &connection() const { return rail_.lane.connection; }
    bool make_room();  // of its own, for what is on its way
    void leave_room();
    void enter();  // it has a slot
    void copy();
    bool belongs_to(const Connection &connection, NotificationId notification) const {
        return &rail_.lane.connection == &connection && notification_ == notification;
    }
    bool retire() { return copying_ && (retired_ = true); }
    bool discard() { return copying_ && (discarded_ = true); }

    void apply() override { copy(); }
    void release() override;

private:
    friend class RequestStaging;
    void on_copied(Status status, int32_t error) override;

    RequestStaging &staging_;
    Rail &rail_;
    const Dir dir_;
    const Target target_;
    const NotificationId notification_;
    const Memory memory_;
    std::vector<DeviceRange> ranges_;
    std::unique_ptr<uint8_t[]> own_;  // it has no slot
    bool has_slot_ = false;
    bool copying_ = false;
    bool released_ = false;
    bool retired_ = false, discarded_ = false;  // somebody waits for its copy
};

RequestStaging::Request::Request(RequestStaging &staging, Rail &rail, Dir dir, const Access &access,
                                 const Memory &memory, const std::vector<iovec> &ranges)
    : staging_(staging),
      rail_(rail),
      dir_(dir),
      target_(access.target()),
      notification_{access.notification},
      memory_(memory) {
    const uint64_t id = memory.one_id();
    for (const iovec &range : ranges) {
        if (range.iov_len == 0) continue;  // which may lie behind the end of the allocation
        const auto address = reinterpret_cast<uint64_t>(range.iov_base);
        const bool touches =
            !ranges_.empty() && ranges_.back().address + ranges_.back().length == address;
        if (touches && id)  // in one allocation, so one copy
            ranges_.back().length += range.iov_len;
        else
            ranges_.push_back({address, range.iov_len, id});
        bounce.iov_len += range.iov_len;
    }
}

bool RequestStaging::Request::make_room() {
    uint64_t &of_peer = rail_.lane.connection.own_bounce;
    if (staging_.own_bytes_ + bounce.iov_len > kMaxOwnBounce) return false;
    if (of_peer + bounce.iov_len > kMaxOwnBounceOfPeer) return false;
    own_.reset(new (std::nothrow) uint8_t[bounce.iov_len]);
    bounce.iov_base = own_.get();
    if (!own_) return false;
    staging_.own_bytes_ += bounce.iov_len;
    of_peer += bounce.iov_len;
    return true;
}

void RequestStaging::Request::leave_room() {
    if (std::exchange(has_slot_, false)) {
        staging_.copier_.give_slot(static_cast<uint8_t *>(bounce.iov_base));
        if (dir_ == Dir::get) --rail_.lane.connection.bounced_for_peer;
        if (!staging_.waiting_.empty()) staging_.loop_.defer(staging_);
    }
    if (!own_) return;
    staging_.own_bytes_ -= bounce.iov_len;
    rail_.lane.connection.own_bounce -= bounce.iov_len;
    own_.reset();
}

void RequestStaging::Request::enter() {
    has_slot_ = true;
    bounce.iov_base = staging_.copier_.take_slot(Copier::For::requests);
    if (dir_ == Dir::put) return;
    ++rail_.lane.connection.bounced_for_peer;
    copy();
}

void RequestStaging::Request::copy() {
    const auto way = dir_ == Dir::put ? Copier::Way::to_device : Copier::Way::to_host;
    auto *const host = static_cast<uint8_t *>(bounce.iov_base);
    copying_ = staging_.copier_.start(*this, way, memory_, ranges_, host);
    if (!copying_) {
        status = XFER_ENOMEM;
        over = true;
        return;
    }
    if (dir_ == Dir::put) ++rail_.copies;
    ++rail_.lane.connection.staged;
}

// The path has answered it; or has ended, and it may be in its copy.
void RequestStaging::Request::release() {
    released_ = true;
    if (!copying_) delete this;
}

// What is told may close its channel, which releases it.
void RequestStaging::Request::on_copied(Status copied, int32_t error) {
    Rail &rail = rail_;
    Connection &connection = rail.lane.connection;
    ConnectionSink &sink = connection.sink;
    const Dir dir = dir_;
    const Target target = target_;
    const NotificationId notification = notification_;
    connection.in_turn([&] {
        if (copied == XFER_OK)
            rail.on_served(dir_, bounce.iov_len, notification);
        else
            sink.on_copy_failed(target, copied, error);
    });
    const bool retired = retired_, discarded = discarded_;
    copying_ = false;
    over = true;
    status = copied;
    if (dir_ == Dir::put) leave_room();  // its answer may wait for long
    if (released_) delete this;
    if (retired) sink.on_quiesced(target);
    if (discarded) connection.in_turn([&] { sink.on_discarded(notification); });
    rail.leave_request_copy(dir);
}

// ----

RequestStaging::RequestStaging(Loop &loop, Copier &copier) : loop_(loop), copier_(copier) {}

RequestStaging::~RequestStaging() {
    stop();
}

void RequestStaging::stop() {
    Task::unlink();
    XFER_CHECK(requests_.empty());
}

bool RequestStaging::may_enter(const Request &request) const {
    const uint32_t free = copier_.free_slots(Copier::For::requests);
    if (request.dir_ == Dir::put) return free > kKeptForGets;
    return free > 0 && request.connection().bounced_for_peer < kBounceShare;
}

StagedRequest *RequestStaging::stage(Rail &rail, Dir dir, const Access &access,
                                     const Memory &memory, std::vector<iovec> &ranges) {
    std::unique_ptr<Request> made;
    const bool tried = catch_bad_alloc([&] {
        made = std::make_unique<Request>(*this, rail, dir, access, memory, ranges);
        ranges.reserve(1);
    });
    if (!tried) return nullptr;
    const bool free = copier_.open() && may_enter(*made);
    if (dir == Dir::put && !free && !made->make_room()) return nullptr;
    Request &request = *made.release();
    requests_.push_back(request);
    if (free && (dir == Dir::put || waiting_.empty()))
        request.enter();
    else if (dir == Dir::get)
        wait(request);
    ranges.assign(1, request.bounce);
    return &request;
}

void RequestStaging::wait(Request &request) {
    waiting_.push_back(request);
    loop_.defer(*this);  // past those that may not, or where memory for slots lacks
}

uint32_t RequestStaging::retire(const Connection &connection, Target target) {
    uint32_t count = 0;
    for (Request &request : requests_)
        if (request.is_of(connection, target) && request.retire()) ++count;
    return count;
}

uint32_t RequestStaging::discard(const Connection &connection, NotificationId notification) {
    uint32_t count = 0;
    for (Request &request : requests_)
        if (request.belongs_to(connection, notification) && request.discard()) ++count;
    return count;
}

// There is room, or no memory for any.
void RequestStaging::run() {
    const bool open = copier_.open();
    List<Request> looked, stays;
    looked.append(waiting_);
    while (Request *request = looked.pop_front()) {
        if (open && !may_enter(*request)) {
            stays.push_back(*request);
            continue;
        }
        if (open) {
            request->enter();
        } else {
            request->status = XFER_ENOMEM;
            request->over = true;
        }
        if (request->over) request->rail_.answer_soon();
    }
    stays.append(waiting_);
    waiting_.append(stays);
}

}  // namespace xfer
