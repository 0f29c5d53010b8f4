// SPDX-License-Identifier: Apache-2.0
// Regions of a neighbour that this end has the keys of, and the copies to and from them, which need
// nobody there to run: in memory that both have mapped, in our own process, or by the kernel.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/op.h"
#include "transport/shm/region_key.h"
#include "transport/shm/rendezvous.h"
#include "transport/shm/segment.h"
#include "util/ref.h"

namespace xfer::shm {

class Importer {
public:
    // `mine`: who claims; `theirs`: who has the slots.
    Importer(const RendezvousSocket &rendezvous, End &mine, End &theirs);
    ~Importer();

    void take(MappingId mapping, Fd descriptor);  // it has come
    std::unique_ptr<Import> import(const RegionKey &key);
    void drop(MemoryId memory);  // of which no more regions are imported

    // Or does it, if it is an atomic. False: it could not be copied after all.
    bool copy(Op &op, std::vector<Piece> &pieces);
    // Of one piece. Nothing: it was not copied, or not all of it.
    std::optional<Moved> copy_now(const Import &import, Dir dir, const Piece &piece);

private:
    class Mapping;
    struct Region;
    static const Region &region_of(const Op &op);
    bool reaches();
    bool note(const Op &op);
    bool copy_here(Op &op, const Region &region, const std::vector<Piece> &pieces);
    bool copy_there(Op &op, const Region &region, const std::vector<Piece> &pieces);
    bool ask_kernel(Dir dir, const Region &region, std::span<const Piece> pieces);

    const RendezvousSocket &rendezvous_;
    End &mine_, &theirs_;
    std::map<MappingId, Fd> descriptors_;         // that have come, and are not mapped yet
    std::map<MappingId, Ref<Mapping>> mappings_;  // at most kSlots
    enum class Kernel : uint8_t { untried, works, forbids } kernel_ = Kernel::untried;
    std::vector<iovec> local_, remote_;
};

}  // namespace xfer::shm
