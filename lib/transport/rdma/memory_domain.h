// SPDX-License-Identifier: Apache-2.0
// The registered memory of one device's protection domain, for one loop (design/0059). A region is
// registered when it is first asked for, on the loop's worker, as its pages are pinned; until then
// nothing is found of it. Thread: the loop's.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "loop/worker.h"
#include "transport/one_sided.h"
#include "transport/rdma/chain.h"
#include "transport/rdma/export_key.h"
#include "transport/rdma/port.h"
#include "transport/rdma/range_index.h"
#include "transport/rdma/registration.h"
#include "transport/rdma/verbs.h"
#include "util/list.h"
#include "util/log.h"
#include "util/status.h"
#include "wire/ids.h"

namespace xfer::rdma {

class MemoryDomainSink {
public:
    // What was being registered is, or can't be.
    virtual void on_settled() = 0;
    // What remove() had to wait for has ended. Called by the loop alone, never from inside a method
    // of the domain, which is not destroyed inside.
    virtual void on_released(RegionId region) = 0;

protected:
    ~MemoryDomainSink() = default;
};

class MemoryDomain {
    class Entry;
    struct Era {
        uint64_t under_way = 0;
    };

public:
    // Chains that are posted between two ends of regions.
    using Epoch = Era *;

    // `port`: any of the device. May throw.
    MemoryDomain(const Verbs &verbs, const Port &port, Worker &worker, const Log &log,
                 MemoryDomainSink &sink);
    // No chain is under way. Deregisters all, and waits for it; in the child of a fork nothing.
    ~MemoryDomain();
    MemoryDomain(const MemoryDomain &) = delete;
    MemoryDomain &operator=(const MemoryDomain &) = delete;

    // A region of this engine's in the host's memory, or what is lent to peers for a time, which no
    // other has the number of. May throw, with nothing changed.
    void add(RegionId region, const ExportedMemory &memory);
    // No key of it is found any more. True: no key of it works, and nothing of it is touched; else
    // that is so from on_released() on, which follows. A region that was not added is none.
    bool remove(RegionId region);

    // For a peer. XFER_EAGAIN: it is being registered, or has not been added, and is to be asked
    // for again; XFER_EUNSUPPORTED: it can't be, which was logged, or in more than kMaxParts. Good
    // until remove().
    Result<const Registration *> find(RegionId region);
    // For our own side: what lies there, to be read by the adapter (a put) or written (a get, the
    // result of an atomic). Where no region that holds it is registered, one begins to be.
    LocalKey find(uint64_t address, Dir dir);
    // The same, of what has been removed since the epoch was entered.
    LocalKey find_removed(uint64_t address, Dir dir);

    // What is posted in between uses keys that were found in between: until it has left no memory
    // is deregistered of which a key could be found when it entered.
    Epoch enter() {
        ++era_->under_way;
        return era_.get();
    }
    void leave(Epoch epoch) {
        if (--epoch->under_way == 0 && epoch != era_.get()) end_eras();
    }

    // What keeps the registration of a region that was found, beyond its end: a memory window.
    using Hold = Entry *;
    Hold hold(RegionId region);
    void let_go(Hold hold);

private:
    using Entries = std::unordered_map<uint64_t, std::unique_ptr<Entry>>;
    struct Hit {  // in one chunk
        uint64_t begin = 0, length = 0;
        uint32_t lkey = 0;
        bool writable = false;
    };

    LocalKey look_up(uint64_t address, bool writes);
    void begin(Entry &entry);
    void on_registered(Entry &entry, Status status);
    void end_eras();
    void retire(std::unique_ptr<Entry> entry);
    void deregister(std::unique_ptr<Entry> entry);
    void on_deregistered(Entry &entry);
    void release(Entry &entry);

    const Verbs &verbs_;
    const Port port_;
    Worker &worker_;
    const Log &log_;
    MemoryDomainSink &sink_;
    const pid_t pid_ = ::getpid();
    Entries entries_;
    RangeIndex<Entry> by_address_;
    Hit last_hit_;
    std::unique_ptr<Era> era_;     // that chains enter now
    OwningList<Entry> waiting_;    // removed, until their eras have ended: in their order
    OwningList<Entry> held_;       // removed, until nothing holds them
    OwningList<Entry> on_worker_;  // removed
    bool told_lent_failed_ = false;
};

}  // namespace xfer::rdma
