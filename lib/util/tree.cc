// SPDX-License-Identifier: Apache-2.0
#include "util/tree.h"

namespace xfer {

void TreeLinks::unlink() {
    if (tree_) tree_->remove(*this);
}

void TreeRoot::attach(TreeLinks &node, TreeLinks *up, bool left) {
    node.tree_ = this;
    node.up_ = up;
    (!up ? root_ : left ? up->left_ : up->right_) = &node;
    splay(node);
}

// Changes places with the node above; the order of all stays.
void TreeRoot::rotate(TreeLinks &node) {
    TreeLinks *up = node.up_, *top = up->up_;
    const bool left = up->left_ == &node;
    TreeLinks *&inner = left ? node.right_ : node.left_;
    (left ? up->left_ : up->right_) = inner;
    if (inner) inner->up_ = up;
    inner = up;
    up->up_ = &node;
    node.up_ = top;
    (!top ? root_ : top->left_ == up ? top->left_ : top->right_) = &node;
}

// By two at a time: of a straight line the upper one first, which is what halves long ways.
void TreeRoot::splay(TreeLinks &node) {
    while (TreeLinks *up = node.up_) {
        if (TreeLinks *top = up->up_) {
            const bool straight = (top->left_ == up) == (up->left_ == &node);
            rotate(straight ? *up : node);
        }
        rotate(node);
    }
}

void TreeRoot::remove(TreeLinks &node) {
    splay(node);
    TreeLinks *left = node.left_, *right = node.right_;
    if (left) left->up_ = nullptr;
    if (right) right->up_ = nullptr;
    root_ = left ? left : right;
    if (left && right) {
        TreeLinks *last = left;
        while (last->right_)
            last = last->right_;
        splay(*last);
        last->right_ = right;
        right->up_ = last;
    }
    node.tree_ = nullptr;
    node.left_ = node.right_ = nullptr;
}

}  // namespace xfer
