// SPDX-License-Identifier: Apache-2.0
// Where one peer can be dialed: which address comes next, and when. One that failed is left alone
// for a while, twice as long each time, and a part of that by chance, so that a thousand who lost
// the same peer do not come back at the same moment. Any sign of life of the peer clears it all;
// but where one and the same process ends connections as soon as they are there, the second such
// end in a row counts as a failure. Pure: the caller has the clock and the random numbers. While
// its peer is one of a shard's, each address that is not only claimed is in the shard's index: who
// opens an endpoint there means this peer.
#pragma once

#include <cstdint>
#include <list>
#include <string>

#include "util/tree.h"

namespace xfer {

class Peer;
struct ByUri;

struct Address final : TreeNode<ByUri> {
    Address(Peer *owner, std::string text) : peer(owner), uri(std::move(text)) {}
    Peer *peer;
    const std::string uri;
    uint32_t failures = 0;
    uint64_t not_before = 0;
    uint64_t turn = 0;  // when it was dialed last, counted
    bool claimed = true;
    bool said_later = false;  // by the user, of a peer that was known
    bool of_other = false;    // another engine answered there, when it was dialed last
};

using AddressIndex = Tree<Address, ByUri, &Address::uri>;

class Addresses {
public:
    explicit Addresses(Peer *owner = nullptr) : owner_(owner) {}
    void enter(AddressIndex &index);  // with all that are there, and all that come
    void leave();

    // The user's: without a bound, as the user has none. `claimed`: somebody says that this peer is
    // there, and nobody has seen it; it is dialed, but not what the peer is found by.
    void add(const std::string &uri, bool claimed = false);
    // The same, without a need of memory, of what was made before; each is dialed at once. True if
    // one of them is new.
    bool add(std::list<Address> &made, bool claimed);
    void seen(const std::string &uri);                 // it has answered there, if it is listed
    void mark_unverified();                            // all of them are only claimed
    void learn(const std::string &uri, bool claimed);  // its own words: at most kMaxListenUris
    void remove(const std::string &uri);
    bool has(const std::string &uri);
    bool leads_on(const std::string &uri);  // who answers there instead of it is its successor
    bool empty() const { return list_.empty(); }

    // The one to dial next; `at`: not before then. None is empty().
    struct Next {
        const std::string &uri;
        uint64_t at;
    };
    Next next() const;

    // An attempt at `uri` ended at `now` without a connection; `retry_after`: the peer asked to be
    // left alone for so long. `random` is any number.
    void failed(const std::string &uri, uint64_t now, uint64_t retry_after, uint64_t random);
    void set_of_other(const std::string &uri, bool of_other);  // another engine answers there
    bool is_of_other(const std::string &uri);
    bool all_of_others() const;  // by what is known of each
    void alive(bool restarted);  // it is connected; as another incarnation than before?
    // A connection to `uri` ended at `now`, that was there for so long.
    void connection_ended(const std::string &uri, uint64_t age, uint64_t now, uint64_t random);
    uint32_t failures() const;  // the most in a row, of any of them

    template <typename Visit>
    void each(Visit visit) const {
        for (const auto &address : list_)
            visit(address.uri);
    }

private:
    Address *find(const std::string &uri);
    void admit(Address &address, bool claimed);

    Peer *const owner_;
    AddressIndex *index_ = nullptr;
    std::list<Address> list_;
    uint64_t turns_ = 0;
    uint32_t short_lives_ = 0;  // in a row
};

}  // namespace xfer
