// SPDX-License-Identifier: Apache-2.0
// A simulated one-sided path, of a local channel or beside a channel: the initiator copies to and
// from the memory of the owner by itself. A copy takes time: one half of it moves when it begins,
// the other when it ends. What goes wrong, and when, is a script's to say (SimNet::on_copy).
// Thread: as OneSidedPath, but for what a path reads of its neighbour's, as both would in memory
// that they share.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "transport/one_sided.h"

namespace xfer {

class SimNet;
class SimTransport;

// When a script is asked: an op is posted; its copy begins, nothing has moved; it is about to end;
// an op is canceled; a region was exported; a key is imported.
enum class CopyStep : uint8_t { post, begin, finish, cancel, exported, imported };

// What becomes of it; each at the steps that are named, elsewhere it is go_on.
enum class CopyFate : uint8_t {
    go_on,
    refuse,   // post: no more is taken than there is; exported: XFER_EAGAIN; imported: null
    fail,     // exported: it can't be reached so
    lack,     // exported, imported: memory lacks
    decline,  // post: at once; begin: late; cancel: in place of an end
    busy,     // cancel: the copy goes on to its end; and after that, if it was not begun, declined
    fall,     // post, begin, finish: the path ends, and not its channel
};

class SimCopyPath final : public OneSidedPath {
public:
    // What it belongs to.
    class Owner {
    public:
        virtual SimTransport &transport() const = 0;
        virtual uint32_t there() const = 0;       // the number of the other process
        virtual uint64_t generation() const = 0;  // of the connection between the two
        // Of an adapter: a key of this region of ours works.
        virtual bool is_registered(RegionId) const { return true; }
        // On its loop, unless it is gone by then.
        virtual void later(uint64_t delay, std::function<void(SimCopyPath &)> call) = 0;
        virtual void on_copies_over(const Failure &why) = 0;  // after close()
        virtual void on_fallen(const Failure &why) = 0;       // alone, after on_down

    protected:
        ~Owner() = default;
    };

    // `adapter`: what has begun to leave lands, though this end is closed, until that of the owner
    // is.
    SimCopyPath(Owner &owner, Scope scope, bool adapter = false);
    ~SimCopyPath();
    SimCopyPath(const SimCopyPath &) = delete;
    SimCopyPath &operator=(const SimCopyPath &) = delete;

    void close(const Failure &why);  // with its channel, which is told when nobody copies any more
    bool is_over() const { return over_; }
    uint64_t number() const { return number_; }
    const Owner &owner() const { return owner_; }
    // As a neighbour could write it into the memory that both share.
    void claim_begun(uint64_t notification, uint64_t key) { noted_[notification] = key; }

    void start(PathSink &sink, OneSidedSink &declined, uint32_t max_ops) override;
    Caps caps() const override;
    bool post(Op &op) override;
    void flush() override;
    bool cancel(Op &op) override;
    bool retire(Target target, Status why) override;
    void discard(NotificationId) override {}
    void on_exportable() {
        if (declined_sink_) declined_sink_->on_exportable();
    }
    Result<ExportKey> export_region(RegionId region, const ExportedMemory &memory) override;
    std::unique_ptr<Import> import(ConstBytes key) override;
    void drop(std::unique_ptr<Import> import) override;
    bool withdrawn(RegionId region) override;
    bool sees_use() const override { return !adapter_; }

private:
    using Ops = List<Op, InPath>;
    // As its owner shows it. Stamps are never used again.
    struct Shown {
        uint64_t path = 0, stamp = 0;
        uint8_t *base = nullptr;
        uint64_t length = 0;
    };
    struct Known;  // what was imported
    struct Copy {
        Op *op = nullptr;
        uint64_t number = 0;
        Shown at;
        uint64_t operation = 0;  // the observer's name of it
        bool begun = false;
        RegionId region;
    };

    CopyFate ask(CopyStep step) const;
    void soon();
    void tell();
    void fall();
    void go_astray(const Copy &copy);
    bool uses(RegionId region) const;
    void begin(uint64_t copy);
    void finish(uint64_t copy);
    bool reaches(Copy &copy) const;
    void note(Op &op, SimCopyPath &owner);
    void name(Copy &copy, const std::vector<Piece> &pieces);
    void move(const Copy &copy, uint64_t from, uint64_t to);
    void move_some(const Copy &copy, const Piece &piece);
    void apply_atomic(const Copy &copy);
    std::list<Copy>::iterator find(uint64_t copy);
    void end(std::list<Copy>::iterator at, Ops &how);
    bool shows(uint64_t stamp) const;
    bool is_copying(uint64_t stamp) const;
    bool is_claimed(uint64_t stamp) const;
    void look();
    void tell_quiet();
    bool may_end();

    Owner &owner_;
    const Scope scope_;
    const bool adapter_;
    SimNet &net_;
    const uint64_t number_;
    PathSink *sink_ = nullptr;  // from start() on
    OneSidedSink *declined_sink_ = nullptr;
    uint32_t max_ops_ = 0, count_ = 0;  // posted and not told
    Ops posted_, done_, declined_, ended_;
    std::list<Copy> copies_;
    uint64_t last_copy_ = 0;
    std::vector<RegionId> dropping_;                      // withdrawn, and used by what has begun
    std::map<uint64_t, Shown> shown_;                     // of ours, by region
    std::vector<std::pair<uint64_t, uint64_t>> leaving_;  // region and stamp: somebody still copies
    std::vector<uint64_t> last_stamps_;                   // of those that end with the path
    std::map<uint64_t, uint64_t> noted_;  // notifications by number, whose puts were copied
    bool looking_ = false;
    bool closing_ = false, over_ = false, with_channel_ = false;
    Failure why_;
};

}  // namespace xfer
