// SPDX-License-Identifier: Apache-2.0
// Intrusive ordered tree: an object is found by its key, of several equal ones that which came
// first, and leaves without a search. The tree owns nothing and needs no memory.
//
// A splay tree (Sleator and Tarjan, "Self-Adjusting Binary Search Trees", 1985): what was touched
// becomes the root, and any row of steps costs O(log n) each. That holds for every order of every
// keys, so that peers, who choose some of them, can't make it slow, and there is no seed to keep
// from them, as a hash would have.
#pragma once

#include <compare>
#include <functional>

#include "util/check.h"

namespace xfer {

class TreeRoot;

class TreeLinks {
public:
    TreeLinks() = default;
    TreeLinks(const TreeLinks &) = delete;
    TreeLinks &operator=(const TreeLinks &) = delete;
    ~TreeLinks() { unlink(); }

    bool linked() const { return tree_ != nullptr; }
    void unlink();

private:
    friend class TreeRoot;
    template <typename T, typename Tag, auto key>
    friend class Tree;
    TreeRoot *tree_ = nullptr;
    TreeLinks *up_ = nullptr, *left_ = nullptr, *right_ = nullptr;
};

// `Tag` tells the nodes of one object apart when it is in several trees at once.
template <typename Tag>
class TreeNode : public TreeLinks {};

// What needs no key.
class TreeRoot {
protected:
    void attach(TreeLinks &node, TreeLinks *up, bool left);
    void splay(TreeLinks &node);
    TreeLinks *root_ = nullptr;

private:
    friend class TreeLinks;
    void rotate(TreeLinks &node);
    void remove(TreeLinks &node);
};

// `key`: what to invoke with a T for its key, which stays as it is while the T is in the tree.
template <typename T, typename Tag, auto key>
class Tree : private TreeRoot {
public:
    bool empty() const { return !root_; }

    void insert(T &item) {
        TreeNode<Tag> &node = item;
        XFER_CHECK(!node.linked());
        TreeLinks *up = nullptr;
        bool left = false;
        for (TreeLinks *at = root_; at; at = left ? at->left_ : at->right_) {
            up = at;
            left = key_of(node) < key_of(*at);
        }
        attach(node, up, left);
    }

    template <typename Key>
    T *find(const Key &wanted) {
        TreeLinks *last = nullptr, *found = nullptr;
        for (TreeLinks *at = root_; at;) {
            last = at;
            const auto order = wanted <=> key_of(*at);
            if (std::is_eq(order)) found = at;
            at = std::is_gt(order) ? at->right_ : at->left_;
        }
        if (last) splay(*last);  // also in vain: the way was as long
        return found ? &item_of(*found) : nullptr;
    }

private:
    static T &item_of(TreeLinks &node) {
        return static_cast<T &>(static_cast<TreeNode<Tag> &>(node));
    }
    static decltype(auto) key_of(TreeLinks &node) { return std::invoke(key, item_of(node)); }
};

}  // namespace xfer
