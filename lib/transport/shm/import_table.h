// SPDX-License-Identifier: Apache-2.0
// What a neighbour has shown to this end, and the copies to and from it, which need nobody there to
// run: in memory that both have mapped, in our own process, or by the kernel. What can't be copied
// so, or no longer, takes the rings, where its owner answers.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "transport/shm/rendezvous.h"
#include "transport/shm/segment.h"
#include "transport/shm/words.h"
#include "transport/transport.h"
#include "util/ref.h"

namespace xfer::shm {

class ImportTable {
public:
    // `mine`: who claims; `theirs`: who has the table.
    ImportTable(const RendezvousSocket &door, End &mine, End &theirs);
    ~ImportTable();

    enum class Way : uint8_t { rings, copy, ask };
    // How it goes; `ask`: by the rings this time, and the region is to be asked for.
    Way way(const Op &op);
    Word question(const Op &op);
    void hear(const Word &shown, std::vector<Fd> fds);
    void hide(RegionId region);
    void drop(MappingId mapping);
    // Or does it, if it is an atomic. False: it could not be copied after all.
    bool copy(Op &op, std::vector<Piece> &pieces);

private:
    class Mapping;
    struct Region {
        enum class State : uint8_t { asked, shown, beyond } state = State::asked;
        uint64_t generation = 0, key = 0;
        uint32_t slot = 0;
        uint64_t stamp = 0;
        uint64_t base = 0, length = 0, access = 0;  // base: in the neighbour's process
        uint8_t *here = nullptr;                    // or: in ours,
        Ref<Mapping> mapping;                       // which stays mapped as long as this is here
    };
    bool fits(const Op &op, const Region &region) const;
    bool reaches();
    bool note(const Op &op);
    Moved way_of(const Region &region) const;
    bool copy_here(Op &op, const Region &region, const std::vector<Piece> &pieces);
    bool copy_there(Op &op, const Region &region, const std::vector<Piece> &pieces);
    void forget_beyond();

    const RendezvousSocket &rendezvous_;
    End &mine_, &theirs_;
    std::map<RegionId, Region> regions_;
    std::map<MappingId, Ref<Mapping>> mappings_;  // at most kSlots
    uint32_t asked_ = 0;
    enum class Kernel : uint8_t { untried, works, forbids } kernel_ = Kernel::untried;
    std::vector<iovec> local_, remote_;
};

}  // namespace xfer::shm
