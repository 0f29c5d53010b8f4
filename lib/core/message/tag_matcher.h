// SPDX-License-Identifier: Apache-2.0
// Which message goes to which receive. Of several receives that would take a message the one that
// was posted first gets it, and of several messages that a receive would take the one that came
// first; so messages of one peer and one tag stay in order. Pure: no I/O, no clock. What names its
// tag in full is found by a search, only masks are tried one after the other.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "util/list.h"
#include "util/tree.h"
#include "wire/hello.h"

namespace xfer {

struct ByWish;  // list tags
struct ByPeerAndTag;
struct ByTag;
struct ByAge;

// A receive that waits.
class Posted : public ListNode<ByWish> {
public:
    bool any = true;               // whoever sends
    std::optional<EngineId> from;  // if not any; nothing: it is not known yet who that is
    uint64_t tag = 0, mask = UINT64_MAX;

    bool takes(const EngineId &sender, uint64_t sent_tag) const {
        return ((sent_tag ^ tag) & mask) == 0 && (any || from == sender);
    }

private:
    friend class TagMatcher;
    uint64_t age_ = 0;

protected:
    ~Posted() = default;
};

// A message that waits.
class Unexpected : public ListNode<ByPeerAndTag>, public ListNode<ByTag>, public ListNode<ByAge> {
public:
    EngineId from{};
    uint64_t tag = 0;

private:
    friend class TagMatcher;
    uint64_t age_ = 0;

protected:
    ~Unexpected() = default;
};

class TagMatcher {
public:
    Posted *take(const EngineId &from, uint64_t tag);  // the receive for a message that has come
    Unexpected *take(const Posted &receive);           // the message for a receive that is posted
    Unexpected *find(const Posted &receive);           // the same, which stays
    // What found nothing waits.
    void add(Posted &receive);
    void add(Unexpected &message);
    void put_back(Unexpected &message);  // one that was taken, among the others as it was
    void remove(Posted &receive);
    void remove(Unexpected &message);
    Unexpected *oldest() const { return messages_.empty() ? nullptr : &messages_.front(); }

private:
    // Without a sender: from any.
    using Key = std::pair<std::optional<EngineId>, uint64_t>;

    // Items in their order, by key. It takes memory for a key, and keeps some for the next ones.
    template <typename T, typename Tag>
    class Index {
    public:
        T *front(const Key &key) {
            Row *row = rows_.find(key);
            return row ? &row->items.front() : nullptr;
        }
        void add(const Key &key, T &item) {
            Row *row = rows_.find(key);
            (row ? *row : make_row(key)).items.push_back(item);
        }
        template <typename Before>
        void put_back(const Key &key, T &item, Before before) {
            Row *row = rows_.find(key);
            row ? insert(row->items, item, before) : make_row(key).items.push_back(item);
        }
        void remove(const Key &key, T &item) {  // also one that is not there
            item.ListNode<Tag>::unlink();
            Row *row = rows_.find(key);
            if (!row || !row->items.empty()) return;
            row->TreeNode<Row>::unlink();
            row->ListNode<>::unlink();
            if (spares_ == kSpareRows) return delete row;
            spare_.push_front(*row);
            ++spares_;
        }

    private:
        static constexpr uint32_t kSpareRows = 64;

        struct Row : TreeNode<Row>, ListNode<> {
            Key key;
            List<T, Tag> items;  // of what is in the tree there is one at least
        };
        Row &make_row(const Key &key) {
            Row *row = spare_.pop_front();
            if (row)
                --spares_;
            else
                row = new Row;
            row->key = key;
            rows_.insert(*row);
            used_.push_back(*row);
            return *row;
        }

        Tree<Row, Row, &Row::key> rows_;
        OwningList<Row> used_, spare_;
        uint32_t spares_ = 0;
    };

    // In front of the first that it comes before.
    template <typename Tag, typename Item, typename Before>
    static void insert(List<Item, Tag> &items, Item &item, Before before) {
        for (Item &other : items)
            if (before(item, other)) return items.insert_before(other, item);
        items.push_back(item);
    }
    static bool exact(const Posted &receive) { return receive.mask == UINT64_MAX; }
    static Key key(const Posted &receive) { return {receive.from, receive.tag}; }

    Index<Posted, ByWish> exact_;
    List<Posted, ByWish> masked_;
    List<Posted, ByWish> unknown_;  // whom they wait for is not known: nothing is for them
    uint64_t age_ = 0;              // of the last one, of either kind

    Index<Unexpected, ByPeerAndTag> by_peer_;
    Index<Unexpected, ByTag> by_tag_;
    List<Unexpected, ByAge> messages_;
};

}  // namespace xfer
