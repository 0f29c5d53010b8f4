// SPDX-License-Identifier: Apache-2.0
// What one path has exported by memory windows: regions and grants, each with as many windows as
// span it, bound on the path's own queue pair when the peer first asks (design/0061). Windows are
// made and given back on the loop's worker. Thread: the loop's.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "transport/one_sided.h"
#include "transport/rdma/export_key.h"
#include "transport/rdma/queue_pair.h"
#include "transport/rdma/registration.h"
#include "util/list.h"
#include "util/status.h"
#include "wire/ids.h"

namespace xfer::rdma {

class Adapter;

// Called by the loop alone, but for on_broken().
class WindowTableSink {
public:
    // The queue pair is to be failed: it takes no binds, or the device keeps a window of it.
    virtual void on_broken(const Failure &why) = 0;
    virtual void on_settled() = 0;                 // windows of something are bound, or can't be
    virtual void on_removed(RegionId region) = 0;  // what remove() had to wait for has ended
    virtual void on_windows_closed() = 0;          // what close() had to

protected:
    ~WindowTableSink() = default;
};

class WindowTable {
public:
    WindowTable(Adapter &adapter, WindowTableSink &sink);
    ~WindowTable();  // when it is closed, or nothing was ever asked for
    WindowTable(const WindowTable &) = delete;
    WindowTable &operator=(const WindowTable &) = delete;

    void start(QueuePair &pair) { pair_ = &pair; }  // which is connected

    // For the peer: what reaches `memory`, of `whole` or all of that, which is so registered.
    // XFER_EAGAIN: its windows are not bound yet, and it is to be asked for again;
    // XFER_EUNSUPPORTED: no window can be. Good until remove(). May throw.
    Result<RegionKeys> find(RegionId region, const ExportedMemory &memory, RegionId whole,
                            const Registration &registration);
    // True: nothing of it has a window; else on_removed() follows when that is so.
    bool remove(RegionId region);
    bool has(RegionId region) const { return entries_.contains(region.value); }

    void on_bind_ended(const ChainEnd &end);  // of the cookie kBind: they end in their order
    void post();                              // slots may have come back

    void stop() { pair_ = nullptr; }  // nothing more is bound
    // Nothing is under way on the queue pair, which will be destroyed. True: no window is left;
    // else on_windows_closed() follows when no more can be given back.
    bool close();
    // The queue pair is destroyed, or lets nothing in for good: what the device has kept is dead.
    void end();

    static constexpr uint64_t kBind = UINT64_MAX - 2;

private:
    class Entry;
    struct InOrder;
    using Order = List<Entry, InOrder>;

    void on_made(Entry &entry);
    bool post(Entry &entry);
    void give_back(Entry &entry);
    void on_given_back(Entry &entry);
    void keep(Entry &entry);
    void release(Entry &entry);
    void forget(Entry &entry);

    Adapter &adapter_;
    WindowTableSink &sink_;
    QueuePair *pair_ = nullptr;
    bool closing_ = false;
    bool keeps_windows_ = false;  // the device; the worker's
    std::unordered_map<uint64_t, std::unique_ptr<Entry>> entries_;
    size_t kept_ = 0;  // of them
    Order waiting_;    // for a slot
    Order posted_;
};

}  // namespace xfer::rdma
