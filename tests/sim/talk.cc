// SPDX-License-Identifier: Apache-2.0
// Engines that have found each other, without faults: every operation succeeds.
#include <algorithm>

#include "scenario.h"
#include "sim_channel.h"
#include "wire/bytes.h"

namespace xfer {

namespace {

constexpr uint32_t kPatienceMs = 60'000;
constexpr uint64_t kGetLength = 64 * 1024;

}  // namespace

// A message with its receive, a get and a notification.
void Scenario::talk_to(Life &life, Life::Ep &ep, Life &owner, const Life::Area &area,
                       std::vector<const ModelOperation *> &begun) {
    const auto options = options_of<xfer_op_options_t>(kPatienceMs);
    const uint64_t tag = next_word(), length = 8 + random(one_in(2) ? 200 : kLongMessage);
    ModelOperation &receive = model.begin(ModelOperation::receive, owner.number, length);
    receive.tag = tag;
    owner.took(receive, nullptr,
               xfer_recv(owner.engine, nullptr, receive.buffer, length, tag, UINT64_MAX,
                         receive.number, &options));
    ModelOperation &send = model.begin(ModelOperation::send, life.number, length);
    store<uint64_t>(send.buffer, send.number);
    send.ep = ep.number, send.tag = tag;
    const bool sends =
        life.took(send, &ep, xfer_send(ep.handle, send.buffer, length, tag, send.number, &options));
    if (sends) begun.insert(begun.end(), {&receive, &send});

    ModelOperation &get =
        model.begin(ModelOperation::single, life.number, std::min(area.lent->length, kGetLength));
    get.ep = ep.number, get.to = owner.number, get.lent = area.lent;
    get.entries.push_back({false, 0, get.length, nullptr, area.lent->content});
    xfer_ref_t ref;
    xfer_region_ref(area.handle, &ref);
    if (life.took(get, &ep,
                  xfer_get(ep.handle, get.buffer, &ref, 0, get.length, get.number, &options)))
        begun.push_back(&get);

    ModelOperation &notify = model.begin(ModelOperation::notify, life.number, 0);
    notify.ep = ep.number;
    const auto bytes = told_bytes(notify.number);
    if (life.took(notify, &ep,
                  xfer_notify(ep.handle, bytes.data(), bytes.size(), notify.number, notify.number,
                              &options)))
        begun.push_back(&notify);
}

// What a slow way took up before it was mended may be on it for as long as operations last; and
// what is late stays so.
bool Scenario::clogged() const {
    return std::any_of(net.channels.begin(), net.channels.end(), [&](const auto &entry) {
        return std::max(entry.second->last_due(), world.now() + entry.second->late()) >
               world.now() + kSecond / 10;
    });
}

void Scenario::talk() {
    const bool redial = one_in(2);
    if (redial || clogged()) {  // whoever begins something has to dial
        net.cut_all();
        settle([] { return false; }, kSecond);
    }
    std::vector<const ModelOperation *> begun;
    for (const auto &[from, to] : met_) {
        const auto &life = nodes_[from].life, &owner = nodes_[to].life;
        if (!life || !life->acts() || !owner || !owner->acts()) continue;
        const auto area = std::find_if(owner->areas.begin(), owner->areas.end(),
                                       [](const auto &each) { return each.name == "r"; });
        Life::Ep *ep = life->own_ep_to(to);
        if (area != owner->areas.end() && ep) talk_to(*life, *ep, *owner, *area, begun);
    }
    settle([&] { return model.pending(false) + model.pending(true) == 0; },
           (kPatienceMs + 1'000) * kNsPerMs);
    for (const ModelOperation *operation : begun)
        if (model.fault.empty() && operation->status != XFER_OK)
            model.violated(describe(*operation) + " does not succeed, and nothing is in the way");
}

}  // namespace xfer
