// SPDX-License-Identifier: Apache-2.0
// Intrusive doubly linked list: an object is in at most one list per node, and leaves it without a
// search. The list owns nothing.
#pragma once

#include "util/check.h"

namespace xfer {

// `Tag` tells the nodes of one object apart when it can be in several lists at once.
template <typename Tag = void>
class ListNode {
public:
    ListNode() = default;
    ListNode(const ListNode &) = delete;
    ListNode &operator=(const ListNode &) = delete;
    ~ListNode() { unlink(); }

    bool linked() const { return next_ != this; }
    void unlink() {
        prev_->next_ = next_;
        next_->prev_ = prev_;
        prev_ = next_ = this;
    }

private:
    template <typename T, typename U>
    friend class List;
    ListNode *prev_ = this;
    ListNode *next_ = this;
};

template <typename T, typename Tag = void>
class List {
public:
    using Node = ListNode<Tag>;

    bool empty() const { return !head_.linked(); }
    bool single() const { return head_.next_ == head_.prev_ && head_.linked(); }
    T &front() const { return *static_cast<T *>(head_.next_); }
    void push_back(T &item) { insert(*head_.prev_, item); }
    void push_front(T &item) { insert(head_, item); }
    T *pop_front() {
        if (empty()) return nullptr;
        T &first = front();
        static_cast<Node &>(first).unlink();
        return &first;
    }
    void insert_before(T &next, T &item) { insert(*static_cast<Node &>(next).prev_, item); }
    // Moves everything of `other` to the end of this list, in order.
    void append(List &other) {
        if (other.empty()) return;
        Node *first = other.head_.next_, *last = other.head_.prev_;
        other.head_.prev_ = other.head_.next_ = &other.head_;
        first->prev_ = head_.prev_;
        head_.prev_->next_ = first;
        last->next_ = &head_;
        head_.prev_ = last;
    }

    // The current element may unlink itself (or be destroyed) during the loop; others may not.
    class Iterator {
    public:
        Iterator(Node *at) : at_(at), next_(at->next_) {}
        T &operator*() const { return *static_cast<T *>(at_); }
        Iterator &operator++() {
            at_ = next_;
            next_ = at_->next_;
            return *this;
        }
        bool operator!=(const Iterator &other) const { return at_ != other.at_; }

    private:
        Node *at_;
        Node *next_;
    };
    Iterator begin() { return Iterator(head_.next_); }
    Iterator end() { return Iterator(&head_); }

private:
    void insert(Node &after, T &item) {
        Node &node = item;
        XFER_CHECK(!node.linked());
        node.prev_ = &after;
        node.next_ = after.next_;
        after.next_->prev_ = &node;
        after.next_ = &node;
    }
    Node head_;
};

// One that owns what is in it.
template <typename T, typename Tag = void>
class OwningList : public List<T, Tag> {
public:
    ~OwningList() { destroy_all(); }
    void destroy_all() {
        while (T *item = this->pop_front())
            delete item;
    }
};

}  // namespace xfer
