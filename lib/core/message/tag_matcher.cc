// SPDX-License-Identifier: Apache-2.0
#include "core/message/tag_matcher.h"

namespace xfer {

Posted *TagMatcher::take(const EngineId &from, uint64_t tag) {
    Posted *oldest = exact_.front({from, tag});
    const auto older = [&](Posted *other) {
        if (other && (!oldest || other->age_ < oldest->age_)) oldest = other;
    };
    older(exact_.front({std::nullopt, tag}));
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
        return receive.any ? by_tag_.front({std::nullopt, receive.tag})
                           : by_peer_.front({receive.from, receive.tag});
    for (Unexpected &message : messages_)
        if (receive.takes(message.from, message.tag)) return &message;
    return nullptr;
}

void TagMatcher::add(Posted &receive) {
    receive.age_ = ++age_;
    if (!receive.any && !receive.from)
        unknown_.push_back(receive);
    else if (exact(receive))
        exact_.add(key(receive), receive);
    else
        masked_.push_back(receive);
}

void TagMatcher::remove(Posted &receive) {
    exact_.remove(key(receive), receive);
}

void TagMatcher::add(Unexpected &message) {
    message.age_ = ++age_;
    by_peer_.add({message.from, message.tag}, message);
    by_tag_.add({std::nullopt, message.tag}, message);
    messages_.push_back(message);
}

void TagMatcher::put_back(Unexpected &message) {
    const auto older = [](const Unexpected &one, const Unexpected &other) {
        return one.age_ < other.age_;
    };
    by_peer_.put_back({message.from, message.tag}, message, older);
    by_tag_.put_back({std::nullopt, message.tag}, message, older);
    insert(messages_, message, older);
}

void TagMatcher::remove(Unexpected &message) {
    by_peer_.remove({message.from, message.tag}, message);
    by_tag_.remove({std::nullopt, message.tag}, message);
    message.ListNode<ByAge>::unlink();
}

}  // namespace xfer
