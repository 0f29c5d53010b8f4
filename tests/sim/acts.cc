// SPDX-License-Identifier: Apache-2.0
// What applications do in a random scenario: calls of the public C API.
#include <algorithm>
#include <cstring>

#include "scenario.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer {

namespace {

constexpr uint64_t kTags = 3;

}  // namespace

uint64_t Scenario::some_length() {
    if (one_in(30)) return 0;
    if (swarm.bulk && one_in(8)) return random(700'000);
    if (one_in(6)) return random(100'000);
    return 1 + random(4'000);
}

uint32_t Scenario::some_timeout(ModelOperation &operation) {
    if (!one_in(swarm.deadline_one_in)) return 0;
    const auto ms = static_cast<uint32_t>(1 + random(one_in(2) ? 50 : 3'000));
    operation.timeout = ms * kNsPerMs;
    return ms;
}

size_t Scenario::home_of(const Lent &lent) const {
    return home_.at(lent.owner);
}

// Mostly one that such an operation may use, mostly of an engine that lives.
const Life::Held *Scenario::some_ref(Life &life, bool put, size_t &to) {
    if (life.held.empty()) return nullptr;
    const Life::Held *ref = nullptr;
    for (int attempt = 0; attempt < 4; ++attempt) {
        ref = &life.held[random(life.held.size())];
        to = home_of(*ref->lent);
        const auto &owner = nodes_[to].life;
        const bool lives = owner && owner->number == ref->lent->owner;
        if (lives && ref->lent->fixed != put) break;
    }
    return ref;
}

// An entry of its own range, or of bytes that are known. False: there is none.
bool Scenario::add_entry(Life &life, size_t to, bool put, ModelOperation &operation, uint64_t at,
                         uint64_t length, const Life::Held &ref, uint64_t &offset) {
    Lent &lent = *ref.lent;
    Entry entry;
    entry.put = put;
    entry.at = at;
    entry.length = length;
    operation.to = lent.owner;
    operation.lent = &lent;
    operation.to_self = to == life.node;
    if (put) {
        if (lent.fixed || lent.next + length > lent.length) return false;
        offset = lent.next;
        lent.next += length;
        entry.remote = lent.base + offset;
        if (ref.granted) operation.grant = &lent;
    } else if (lent.fixed) {
        if (lent.length <= length) return false;
        offset = random(lent.length - length);
        entry.expected = lent.content + offset;
    } else {
        std::vector<const Stable *> of_it;
        for (const Stable &stable : stable_)
            if (stable.lent == &lent && stable.length >= length) of_it.push_back(&stable);
        if (of_it.empty() || ref.granted) return false;
        const Stable &stable = *of_it[random(of_it.size())];
        const uint64_t skip = random(stable.length - length + 1);
        offset = stable.offset + skip;
        entry.expected = stable.bytes + skip;
    }
    operation.entries.push_back(entry);
    return true;
}

void Scenario::keep_stable(const ModelOperation &operation) {
    if (operation.kind != ModelOperation::single || operation.grant || stable_.size() > 64) return;
    const Entry &entry = operation.entries.front();
    if (!entry.put || entry.length == 0) return;
    for (auto &node : nodes_)
        for (const Life::Area &area : node.life ? node.life->areas : std::vector<Life::Area>())
            if (entry.remote >= area.lent->base &&
                entry.remote < area.lent->base + area.lent->length)
                stable_.push_back({area.lent, static_cast<uint64_t>(entry.remote - area.lent->base),
                                   entry.length,
                                   payload_table() + operation.number * 7919 % (1 << 20)});
}

std::string Scenario::describe(const ModelOperation &operation) const {
    static const char *const kinds[] = {"single", "batch",    "send",  "receive",
                                        "notify", "question", "flush", "atomic"};
    std::string text = std::string(kinds[operation.kind]) + " #" + std::to_string(operation.number);
    for (const Entry &entry : operation.entries)
        text += (entry.put ? " put " : " get ") + std::to_string(entry.length);
    if (operation.kind == ModelOperation::atomic)
        text += (operation.change.op == XFER_ATOMIC_ADD ? " add " : " cas ") +
                std::to_string(operation.change.operand);
    if (operation.to) text += " of e" + std::to_string(operation.to);
    if (operation.kind == ModelOperation::send || operation.kind == ModelOperation::receive)
        text += " tag " + std::to_string(operation.tag) + ", " + std::to_string(operation.length);
    if (operation.timeout)
        text += " within " + std::to_string(operation.timeout / kNsPerMs) + " ms";
    if (operation.notifies) text += " notifies";
    if (operation.key) text += " key " + std::to_string(operation.key - kSharedKey);
    if (operation.ordered) text += " ordered";
    if (operation.quiet) text += " quiet";
    return text;
}

void Scenario::act_single(Life &life, bool put) {
    size_t to = 0;
    const Life::Held *ref = some_ref(life, put ? true : one_in(3), to);
    if (!ref) return act_question(life, Act::lookup);
    const uint64_t length = some_length();
    ModelOperation &operation =
        model.begin(ModelOperation::single, life.number, std::max<uint64_t>(length, 1));
    uint64_t offset = 0;
    Life::Ep *ep = life.ep_to(to, one_in(20));
    if (!ep || !add_entry(life, to, put, operation, 0, length, *ref, offset))
        return model.refused(operation);
    operation.ep = ep->number;
    operation.quiet = swarm.quiets && one_in(2) && life.ep_by(ep->number);
    auto options = options_of<xfer_op_options_t>(some_timeout(operation));
    options.flags = operation.quiet ? XFER_FLAG_QUIET : 0;
    const auto call = [&] {
        return put ? xfer_put(ep->handle, operation.buffer, &ref->ref, offset, length,
                              operation.number, &options)
                   : xfer_get(ep->handle, operation.buffer, &ref->ref, offset, length,
                              operation.number, &options);
    };
    if (life.took(operation, ep, call()) && operation.quiet) flush(life, *ep);
}

void Scenario::act_get_all(Life &life, Life::Ep &ep, const Life::Held &ref) {
    const uint64_t length = ref.lent->length;
    ModelOperation &operation = model.begin(ModelOperation::single, life.number, length);
    operation.ep = ep.number;
    operation.to = ref.lent->owner;
    operation.lent = ref.lent;
    operation.entries.push_back({false, 0, length, nullptr, ref.lent->content});
    const auto options = options_of<xfer_op_options_t>(some_timeout(operation));
    life.took(
        operation, &ep,
        xfer_get(ep.handle, operation.buffer, &ref.ref, 0, length, operation.number, &options));
}

// The only engine that this can be about; 0: there are, or were, others.
uint32_t Scenario::surely_at(const Life::Ep &ep) const {
    const Node &node = nodes_[ep.node];
    const bool wrong = ep.expected && *ep.expected != node.id;
    return node.lives == 1 && node.life && !wrong && !ep.wanders ? node.life->number : 0;
}

void Scenario::act_send(Life &life) {
    if (Life::Ep *ep = life.ep_to(other_node(life))) send_by(life, *ep);
}

void Scenario::send_by(Life &life, Life::Ep &ep) {
    const uint64_t length = 8 + (one_in(3) ? random(kLongMessage) : random(200));
    ModelOperation &operation = model.begin(ModelOperation::send, life.number, length);
    store<uint64_t>(operation.buffer, operation.number);
    operation.ep = ep.number;
    operation.tag = random(kTags);
    operation.to = surely_at(ep);
    auto options = options_of<xfer_op_options_t>(some_timeout(operation));
    operation.sync = one_in(4);
    options.flags = operation.sync ? XFER_FLAG_SYNC : 0;
    life.took(
        operation, &ep,
        xfer_send(ep.handle, operation.buffer, length, operation.tag, operation.number, &options));
}

void Scenario::act_receive(Life &life) {
    const uint64_t capacity = one_in(5) ? 8 + random(300) : 8 + kLongMessage;
    ModelOperation &operation = model.begin(ModelOperation::receive, life.number, capacity);
    Life::Ep *ep = one_in(3) ? life.ep_to(other_node(life)) : nullptr;
    operation.tag = random(kTags);
    if (ep) operation.ep = ep->number;
    const auto options = options_of<xfer_op_options_t>(some_timeout(operation));
    life.took(operation, nullptr,
              xfer_recv(life.engine, ep ? ep->handle : nullptr, operation.buffer, capacity,
                        operation.tag, one_in(3) ? 0 : UINT64_MAX, operation.number, &options));
}

bool Scenario::act_notify(Life &life, Life::Ep *ep) {
    if (!ep) return false;
    ModelOperation &operation = model.begin(ModelOperation::notify, life.number, 0);
    operation.ep = ep->number;
    operation.to = surely_at(*ep);
    const auto options = options_of<xfer_op_options_t>(some_timeout(operation));
    if (swarm.counts && one_in(2)) operation.key = kSharedKey + random(kSharedKeys);
    const uint64_t key = operation.key ? operation.key : operation.number;
    const auto bytes = told_bytes(operation.number);
    return life.took(
        operation, ep,
        xfer_notify(ep->handle, bytes.data(), bytes.size(), key, operation.number, &options));
}

void Scenario::act_counter(Life &life) {
    Count count;
    count.at = life.number;
    count.key = kSharedKey + random(kSharedKeys);
    count.expected = 1 + random(3);
    count.user = next_word();
    Life::Counter made;
    made.user = count.user;
    xfer_counter_options_t options{};
    options.size = sizeof options;
    options.user = count.user;
    if (one_in(4)) options.timeout_ms = static_cast<uint32_t>(1 + random(one_in(2) ? 50 : 3'000));
    const uint32_t limit_ms = options.timeout_ms ? options.timeout_ms : swarm.timeout_ms;
    count.limit = limit_ms * kNsPerMs;
    const xfer_status_t status =
        xfer_counter_open(life.engine, count.key, count.expected, &options, &made.handle, nullptr);
    const bool taken = model.counting(life.number, count.key) != nullptr;
    note([&] {
        return life.name() + " counts key " + std::to_string(count.key - kSharedKey) + ": " +
               xfer_status_name(status);
    });
    if (status != (taken ? XFER_EEXIST : XFER_OK))
        return model.violated(life.name() + ": a counter answers " + xfer_status_name(status));
    if (taken) return;
    count.handle = made.handle;
    model.count(count);
    life.counters.push_back(made);
}

void Scenario::act_close_counter(Life &life) {
    if (life.counters.empty()) return;
    const size_t index = random(life.counters.size());
    model.uncount(life.counters[index].user);
    xfer_counter_close(life.counters[index].handle);
    life.counters.erase(life.counters.begin() + static_cast<ptrdiff_t>(index));
}

void Scenario::act_question(Life &life, Act act) {
    Life::Ep *ep = life.ep_to(one_in(30) ? life.node : other_node(life), one_in(20));
    if (ep) ask_by(life, *ep, act);
}

void Scenario::ask_by(Life &life, Life::Ep &ep, Act act) {
    ModelOperation &operation = model.begin(ModelOperation::question, life.number, 0);
    operation.ep = ep.number;
    uint32_t timeout = some_timeout(operation);
    if (act == Act::await && !timeout) {  // else it waits for a name that may never come
        timeout = swarm.stall_ms;
        operation.timeout = timeout * kNsPerMs;
    }
    const auto plain = options_of<xfer_op_options_t>(timeout);
    if (act == Act::connect)
        return void(
            life.took(operation, &ep, xfer_ep_connect(ep.handle, operation.number, &plain)));
    if (act == Act::probe)
        return void(life.took(operation, &ep, xfer_ep_probe(ep.handle, operation.number, &plain)));
    auto options = options_of<xfer_op_options_t>(timeout);
    const char *const names[] = {"m", "r", "x0", "x1"};
    const char *wanted = names[random(one_in(4) ? 4 : 2)];
    if (act == Act::await) options.flags = XFER_FLAG_WAIT;
    life.took(operation, &ep,
              xfer_ep_lookup(ep.handle, wanted, operation.number, &options, nullptr));
}

void Scenario::act_cancel(Life &life) {
    std::vector<const ModelOperation *> open;
    for (const auto &[number, operation] : model.operations())
        if (operation->from == life.number && !operation->ended) open.push_back(operation.get());
    if (open.empty()) return;
    const ModelOperation &operation = *open[random(open.size())];
    note([&] { return life.name() + " cancels " + describe(operation); });
    model.withdraw(operation.number);
    const uint64_t mask = random(4) ? UINT64_MAX : UINT32_MAX;  // numbers are smaller
    if (operation.kind == ModelOperation::receive || random(2))
        return void(xfer_cancel(life.engine, nullptr, operation.number, mask));
    for (const Life::Batch &batch : life.batches)
        if (batch.last == operation.number && random(2))
            return void(xfer_batch_cancel(batch.handle));
    if (const Life::Ep *ep = life.ep_by(operation.ep))
        xfer_cancel(life.engine, ep->handle, operation.number, mask);
}

void Scenario::act_keep(Life &life) {
    if (life.visitors.empty()) return;
    const size_t index = random(life.visitors.size());
    const Life::Ep &visitor = life.visitors[index];
    if (!visitor.expected) return;  // it is told in a moment who that is
    if (xfer_ep_close(visitor.handle) != XFER_EINVAL)
        model.violated(life.name() + " closes a handle that is not its own");
    if (one_in(2)) life.keep(index);
}

void Scenario::act_region(Life &life, bool open) {
    if (!open) {
        const size_t index = random(life.areas.size() + 2);
        if (index < life.areas.size()) life.close_area(index);
        return;
    }
    const std::string name = "x" + std::to_string(random(2));
    for (const Life::Area &area : life.areas)
        if (area.name == name) return;
    life.open_area(name, 512 << 10, XFER_READ | XFER_WRITE | swarm.atomics, nullptr);
}

// To one of the others, which learns of it by the application's own means.
void Scenario::act_grant(Life &life) {
    if (life.areas.empty()) return;
    const Life::Area &area = life.areas[random(life.areas.size())];
    Lent &lent = *area.lent;
    Life *friend_of_it = any();
    const uint64_t length = 1 + random(200'000);
    if (swarm.atomics) lent.next = (lent.next + 7) / 8 * 8;
    if (lent.fixed || lent.next + length > lent.length || friend_of_it->held.size() >= 32) return;
    xfer_grant_options_t options{};
    options.size = sizeof options;
    options.access = XFER_READ | XFER_WRITE | swarm.atomics;
    options.offset = lent.next;
    options.length = length;
    options.user = next_word();
    options.lease_ms = one_in(3) ? static_cast<uint32_t>(1 + random(2'000)) : 0;
    Life::Grant grant;
    grant.region = area.handle;
    if (xfer_region_grant(area.handle, &options, &grant.ref, nullptr) != XFER_OK) return;
    note([&] {
        return life.name() + " grants " + std::to_string(length) + " bytes to " +
               friend_of_it->name();
    });
    grant.lent = &model.grant(lent, lent.next, length, options.user);
    grant.lent->lease = options.lease_ms * kNsPerMs;
    grant.lent->lease_from = world.now();
    lent.next += length;
    life.grants.push_back(grant);
    friend_of_it->held.push_back({grant.ref, grant.lent, true});
}

void Scenario::act_drain(Life &life) {
    life.draining = true;
    note([&] { return life.name() + " drains"; });
    const auto options = options_of<xfer_op_options_t>(one_in(2) ? 2'000 : 0);
    xfer_engine_drain(life.engine, 0, &options);
}

void Scenario::act_revoke(Life &life) {
    if (life.grants.empty()) return;
    const Life::Grant &grant = life.grants[random(life.grants.size())];
    Lent &lent = *grant.lent;
    const bool over = lent.over || lent.revoke_called, may_be = over || lent.lapsed(world.now());
    xfer_status_t status = XFER_OK;
    const bool renews = one_in(4);
    if (renews) {
        auto lease_ms = static_cast<uint32_t>(1 + random(2'000));
        if (swarm.spans && one_in(4)) lease_ms = 0;  // it has no end any more
        status = xfer_region_renew(grant.region, &grant.ref, lease_ms);
        if (status == XFER_OK) lent.lease = lease_ms * kNsPerMs, lent.lease_from = world.now();
    } else {
        status = xfer_region_revoke(grant.region, &grant.ref);
        lent.revoke_called |= status == XFER_OK;
    }
    note([&] {
        return life.name() + (renews ? " renews" : " revokes") +
               " a grant: " + xfer_status_name(status);
    });
    const bool right = status == XFER_OK ? !over : status == XFER_EREVOKED && may_be;
    if (!right) model.violated(life.name() + ": a grant answers " + xfer_status_name(status));
}

}  // namespace xfer
