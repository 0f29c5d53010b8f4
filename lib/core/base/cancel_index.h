// SPDX-License-Identifier: Apache-2.0
// What xfer_cancel reaches, found by the word that the user gave it.
#pragma once

#include <cstdint>

#include "core/base/event.h"
#include "util/list.h"
#include "util/tree.h"

namespace xfer {

class Endpoint;
struct ByUser;        // the tag of a tree
struct InCancelable;  // of a list

// Which operations one cancel means.
struct CancelScope {
    const Endpoint *ep = nullptr;  // null: begun through whatever endpoint, or none
    uint64_t user = 0, mask = UINT64_MAX;

    bool one_word() const { return mask == UINT64_MAX; }
    bool has(uint64_t word) const { return ((word ^ user) & mask) == 0; }
};

// An operation that ends with an event.
class Cancelable : public EventNode, public TreeNode<ByUser>, public ListNode<InCancelable> {
public:
    uint64_t user() const { return event.user; }
    // The endpoint that the user named when it began; null: none.
    virtual const Endpoint *begun_with() const = 0;
    virtual void cancel() = 0;  // on its loop, while it is in the index of that

protected:
    ~Cancelable() = default;
};

// Of one loop.
class CancelIndex {
public:
    void add(Cancelable &operation) {
        by_user_.insert(operation);
        all_.push_back(operation);
    }
    static void remove(Cancelable &operation) {  // also of one that is in none
        operation.TreeNode<ByUser>::unlink();
        operation.ListNode<InCancelable>::unlink();
    }
    void cancel(const CancelScope &scope);

private:
    Tree<Cancelable, ByUser, &Cancelable::user> by_user_;
    List<Cancelable, InCancelable> all_;
};

}  // namespace xfer
