// SPDX-License-Identifier: Apache-2.0
// The operations that core has posted on a path, as chains of work requests on its queue pair.
// Nothing of an operation is touched until the flush behind it, or the next task of the loop: then
// all that wait leave by one doorbell, as far as there are slots and room in a list, and by the
// next ones as slots come back.
// FIFO: the requests of an operation are posted behind all requests of those that came before, and
// no operation is passed by one that came later: it waits for the slots of at most max_ops - 1
// others, which hold none while they wait, too.
// Memory of this side that is registered is read and written where it lies, other memory by way of
// a bounce buffer. Thread: the loop's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "loop/loop.h"
#include "transport/one_sided.h"
#include "transport/rdma/adapter.h"
#include "transport/rdma/begun_table.h"
#include "transport/rdma/chain.h"
#include "transport/rdma/post_list.h"
#include "transport/rdma/queue_pair.h"
#include "transport/rdma/remote_region.h"
#include "util/list.h"

namespace xfer::rdma {

// Where the peer's table of begun notifications is.
struct PeersTable {
    uint64_t address = 0;
    uint32_t key = 0;
};

class Initiator final : Task, TimerSink {
public:
    class Owner {
    public:
        virtual void on_broken(const Failure &why) = 0;  // its queue pair is to be failed

    protected:
        ~Owner() = default;
    };

    Initiator(Adapter &adapter, BegunTable &begun, Owner &owner)
        : adapter_(adapter), begun_(begun), owner_(owner) {}
    ~Initiator();
    Initiator(const Initiator &) = delete;
    Initiator &operator=(const Initiator &) = delete;

    void prepare();  // what it will need; may throw
    void start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops, QueuePair &pair,
               const PeersTable &table);

    // As those of a path.
    Caps caps() const;
    bool post(Op &op);
    void flush();
    bool cancel(Op &op);
    void drop(const Import &import);
    bool withdrawn(RegionId region);

    void on_chain_ended(const ChainEnd &end);
    void go_on() {  // slots have come back: the next task uses all of a turn
        if (!queue_.empty()) adapter_.loop().defer(*this);
    }
    void stop();  // nothing more is posted, and nothing told until end()
    void end();   // the queue pair is destroyed: all that is left ends, and is told

private:
    enum class Stage : uint8_t { free, waits, begun, over };
    struct InPostings;
    struct Posting : ListNode<InPostings> {
        Stage stage = Stage::free;
        Op *op = nullptr;
        const RemoteRegion *remote = nullptr;  // null: it was dropped
        RegionId region;
        ChainPosition posted;   // how far it is posted,
        ChainPosition at;       // or in the list that is made,
        bool whole = false;     // and that nothing is left to be
        uint32_t chains = 0;    // under way
        bool declined = false;  // it ends so
        bool awaited = false;   // its region was withdrawn, and the peer waits for its end
        Status status = XFER_OK;
        uint64_t quiet_due = 0;  // canceled, and in use: then it has ended, or the path does
        bool was_late = false;   // the loop, when that was due: it has had its time again
        std::optional<Bounce> bounce;
        MemoryDomain::Epoch epoch{};
    };
    class Keys;

    bool begin(Posting &posting);
    bool draw(const Posting &posting);
    bool is_registered(const Posting &posting) const;
    bool take_bounce(Posting &posting);
    void use_bounce(const Posting &posting);
    void post_waiting();
    void gather();
    uint32_t room() const;
    void add_begun(const Op &op);
    void add_next(Posting &posting);
    bool ring();
    void note_taken(uint32_t taken);
    void take_back(uint64_t cookie);
    void be_over(Posting &posting, Status status);
    void finish(Posting &posting);
    void copy_out(Posting &posting);
    bool uses(RegionId region) const;
    void run() override;
    void on_timer(Timer &timer) override;

    Adapter &adapter_;
    BegunTable &begun_;
    Owner &owner_;
    PathSink *sink_ = nullptr;  // from start() on
    OneSidedSink *declined_sink_ = nullptr;
    QueuePair *pair_ = nullptr;
    PeersTable table_;
    uint32_t max_ops_ = 0;
    bool stopped_ = true;

    std::unique_ptr<Posting[]> postings_;
    List<Posting, InPostings> free_;
    List<Posting, InPostings> queue_;  // not posted whole: in their order
    List<Posting, InPostings> over_;   // to be told by the next task
    Timer cancel_{*this};
};

}  // namespace xfer::rdma
