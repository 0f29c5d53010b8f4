// SPDX-License-Identifier: Apache-2.0
#include "core/message/tag_matcher.h"

namespace xfer {

namespace {

template <typename Map>
auto *front(Map &index, const typename Map::key_type &key) {
    const auto at = index.find(key);
    return at == index.end() ? nullptr : &at->second.front();
}

// An index has no empty lists.
template <typename Tag, typename Map, typename Item>
void drop(Map &index, const typename Map::key_type &key, Item &item) {
    item.ListNode<Tag>::unlink();
    const auto at = index.find(key);
    if (at != index.end() && at->second.empty()) index.erase(at);
}

}  // namespace

Posted *TagMatcher::take(const EngineId &from, uint64_t tag) {
    Posted *oldest = front(exact_, {from, tag});
    const auto older = [&](Posted *other) {
        if (other && (!oldest || other->age_ < oldest->age_)) oldest = other;
    };
    older(front(exact_, {std::nullopt, tag}));
    for (Posted &receive : masked_)
        if (receive.takes(from, tag)) {
            older(&receive);
            break;
        }
    if (oldest) remove(*oldest);
    return oldest;
}

Unexpected *TagMatcher::take(const Posted &receive) {
    Unexpected *first = find(receive);
    if (first) remove(*first);
    return first;
}

Unexpected *TagMatcher::find(const Posted &receive) {
    if (!receive.any && !receive.from) return nullptr;
    if (exact(receive))
        return receive.any ? front(by_tag_, {std::nullopt, receive.tag})
                           : front(by_peer_, {receive.from, receive.tag});
    for (Unexpected &message : messages_)
        if (receive.takes(message.from, message.tag)) return &message;
    return nullptr;
}

void TagMatcher::add(Posted &receive) {
    receive.age_ = ++age_;
    if (!receive.any && !receive.from)
        unknown_.push_back(receive);
    else if (exact(receive))
        exact_[key(receive)].push_back(receive);
    else
        masked_.push_back(receive);
}

void TagMatcher::remove(Posted &receive) {
    drop<ByWish>(exact_, key(receive), receive);
}

void TagMatcher::add(Unexpected &message) {
    by_peer_[{message.from, message.tag}].push_back(message);
    by_tag_[{std::nullopt, message.tag}].push_back(message);
    messages_.push_back(message);
}

void TagMatcher::remove(Unexpected &message) {
    drop<ByPeerAndTag>(by_peer_, {message.from, message.tag}, message);
    drop<ByTag>(by_tag_, {std::nullopt, message.tag}, message);
    message.ListNode<ByAge>::unlink();
}

}  // namespace xfer
