// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "core/base/limits.h"
#include "util/status.h"
#include "wire/bytes.h"

namespace xfer {

namespace {

// What an end may take beyond the deadline: the owner's word that nothing lands, a reader's last
// chunk.
constexpr uint64_t kSlack = kFenceNs + kRetireNs + 500 * kNsPerMs;
constexpr uint64_t kHeader = 8;  // of a message: its number

}  // namespace

std::string named(const ModelOperation &operation) {
    static const char *const kinds[] = {"single", "batch",    "send",  "receive",
                                        "notify", "question", "flush", "atomic"};
    return std::string(kinds[operation.kind]) + " #" + std::to_string(operation.number) + " of e" +
           std::to_string(operation.from);
}

const uint8_t *payload_table() {
    static const std::vector<uint8_t> table = [] {
        std::vector<uint8_t> bytes(kTableBytes);
        std::mt19937_64 dice(1);
        for (uint8_t &byte : bytes)
            byte = static_cast<uint8_t>(1 + dice() % 200);
        return bytes;
    }();
    return table.data();
}

void Model::violated(const std::string &what) {
    note("VIOLATED: " + what);
    if (fault.empty()) fault = what;
}

void Model::note(const std::string &line) {
    if (!trace_) return;
    std::printf("%12.6f %s\n", static_cast<double>(net_.world.now()) / 1e9 - 3600, line.c_str());
}

// ---- memory

Lent &Model::lend(uint32_t owner, uint64_t length, const uint8_t *fixed, bool shared) {
    auto lent = std::make_unique<Lent>();
    lent->owner = owner;
    lent->length = length;
    lent->fixed = fixed != nullptr;
    lent->content = fixed;
    lent->base = const_cast<uint8_t *>(fixed);
    if (!shared) {  // the kernel's own zeros: what is not used costs nothing
        lent->memory = {static_cast<uint8_t *>(std::calloc(1, length)), std::free};
        lent->base = lent->memory.get();
        if (fixed) std::memcpy(lent->base, fixed, length);
        lent_by_address_[reinterpret_cast<Address>(lent->base)] = lent.get();
    }
    lent_.push_back(std::move(lent));
    return *lent_.back();
}

Lent &Model::grant(Lent &whole, uint64_t offset, uint64_t length, uint64_t id) {
    auto lent = std::make_unique<Lent>();
    lent->owner = whole.owner;
    lent->id = id;
    lent->base = whole.base + offset;
    lent->length = length;
    lent->whole = &whole;
    lent_.push_back(std::move(lent));
    return *lent_.back();
}

Lent *Model::find_lent(uint32_t owner, uint64_t id) {
    for (auto &lent : lent_)
        if (lent->owner == owner && lent->id == id) return lent.get();
    return nullptr;
}

Lent *Model::lent_at(const void *at) const {
    const auto address = reinterpret_cast<Address>(at);
    auto next = lent_by_address_.upper_bound(address);
    if (next == lent_by_address_.begin()) return nullptr;
    Lent *lent = std::prev(next)->second;
    return address < reinterpret_cast<Address>(lent->base) + lent->length ? lent : nullptr;
}

bool Model::grants_over(const Lent &lent) const {
    return std::all_of(lent_.begin(), lent_.end(),
                       [&](const auto &other) { return other->whole != &lent || other->over; });
}

void Model::returned(Lent &lent) {
    if (lent.over) return violated("a region is told closed twice");
    lent.over = true;
    check_words(lent);
    // It is its owner's again, who does with it as he likes: whatever reads it now reads poison.
    if (lent.memory) std::memset(lent.base, kPoison, lent.fixed ? lent.length : lent.next);
}

// ---- operations

ModelOperation &Model::begin(ModelOperation::Kind kind, uint32_t from, uint64_t length) {
    auto made = std::make_unique<ModelOperation>();
    ModelOperation &operation = *made;
    operation.kind = kind;
    operation.number = ++last_number_;
    operation.from = from;
    operation.length = length;
    if (length) {
        buffers_.push_back(std::make_unique<uint8_t[]>(length));
        operation.buffer = buffers_.back().get();
        by_buffer_[reinterpret_cast<Address>(operation.buffer)] = &operation;
        const uint64_t from_table = operation.number * 7919 % (1 << 20);
        const uint64_t sound = std::min(length, kTableBytes - from_table);
        std::memcpy(operation.buffer, payload_table() + from_table, sound);
        operation.on_device = devices_ && kind != ModelOperation::atomic && net_.world.random(2);
    }
    all_[operation.number] = std::move(made);
    return operation;
}

ModelOperation &Model::again(const ModelOperation &before) {
    check_buffer(before);
    auto made = std::make_unique<ModelOperation>();
    ModelOperation &operation = *made;
    operation.kind = before.kind;
    operation.number = ++last_number_;
    operation.from = before.from;
    operation.to = before.to;
    operation.ep = before.ep;
    operation.buffer = before.buffer;
    operation.length = before.length;
    operation.on_device = before.on_device;
    operation.entries = before.entries;
    operation.to_self = before.to_self;
    operation.lent = before.lent;
    for (Entry &entry : operation.entries)
        entry.landed = 0;
    by_buffer_[reinterpret_cast<Address>(operation.buffer)] = &operation;
    std::memcpy(operation.buffer, payload_table() + operation.number * 7919 % (1 << 20),
                operation.length);
    all_[operation.number] = std::move(made);
    return operation;
}

void Model::died(Who &who) {
    who.dead = true;
    for (auto &[number, operation] : all_)
        if (operation->from == who.number && !operation->ended && !operation->unheard)
            --(operation->kind == ModelOperation::receive ? pending_receives_ : pending_);
}

void Model::refused(ModelOperation &operation) {
    operation.ended = true;
    operation.status = XFER_EAGAIN;
    operation.flags = XFER_FENCED;
    if (operation.buffer) std::memset(operation.buffer, kPoison, operation.length);
}

void Model::submitted(ModelOperation &operation) {
    operation.submitted = net_.world.now();
    operation.frozen = who_[operation.from].frozen;
    ++(operation.kind == ModelOperation::receive ? pending_receives_ : pending_);
}

ModelOperation *Model::find(uint64_t number) {
    const auto at = all_.find(number);
    return at == all_.end() ? nullptr : at->second.get();
}

uint64_t Model::open_on(uint64_t ep, uint32_t life) const {
    return static_cast<uint64_t>(std::count_if(all_.begin(), all_.end(), [&](const auto &at) {
        const ModelOperation &operation = *at.second;
        const bool pulls = operation.kind == ModelOperation::receive && operation.from == life;
        return (pulls || operation.ep == ep) && operation.submitted && !operation.ended;
    }));
}

bool Model::is_somebody(const EngineId &id) const {
    return std::any_of(who_.begin(), who_.end(),
                       [&](const auto &at) { return at.second.id == id; });
}

bool Model::has_listened(const std::string &uri,
                         const std::function<bool(const Who &)> &who) const {
    return std::any_of(who_.begin(), who_.end(),
                       [&](const auto &at) { return at.second.uri == uri && who(at.second); });
}

uint64_t Model::pending(bool receives) const {
    return receives ? pending_receives_ : pending_;
}

std::string Model::pending_one() const {
    for (const auto &[number, operation] : all_)
        if (!operation->ended && !who_.at(operation->from).dead) return named(*operation);
    return "nothing";
}

// ---- events

void Model::withdraw(uint64_t number) {
    if (ModelOperation *operation = find(number)) operation->withdrawn = true;
}

void Model::withdraw_all(uint64_t ep, uint32_t from) {
    for (auto &[number, operation] : all_)
        if (operation->ep == ep && operation->from == from) operation->withdrawn = true;
}

void Model::ended(const xfer_event_t &event, Who &by) {
    ModelOperation *operation = find(event.user);
    if (!operation) return violated("an event for what was never submitted");
    if (operation->ended) return violated(named(*operation) + " ends twice");
    if (operation->from != by.number) return violated(named(*operation) + " ends elsewhere");
    operation->ended = true;
    operation->ended_at = net_.world.now();
    operation->status = event.status;
    operation->flags = event.flags;
    if (!operation->unheard)
        --(operation->kind == ModelOperation::receive ? pending_receives_ : pending_);
    static const char *const kinds[] = {"op",   "put",    "get",   "batch",  "send",
                                        "recv", "lookup", "probe", "connect"};
    const char *kind = event.kind == XFER_EVENT_FLUSH      ? "flush"
                       : event.kind == XFER_EVENT_NOTIFIED ? "notify"
                       : event.kind == XFER_EVENT_ATOMIC   ? "atomic"
                                                           : kinds[event.kind];
    ++met()[std::string("end ") + kind + " " + xfer_status_name(event.status) +
            (event.flags & XFER_MAYBE_APPLIED ? " maybe" : "")];
    if (operation->quiet && event.status == XFER_OK)
        return violated(named(*operation) + " is quiet, and its success is told");
    check_flags(*operation);
    if (operation->kind == ModelOperation::flush) return flushed(*operation);
    note_failure(*operation);
    check_time(*operation, by);
    check_reason(*operation, by);
    check_rest(*operation);
    if (operation->kind == ModelOperation::atomic) check_change(*operation);
    if (operation->kind == ModelOperation::receive)
        received(event, *operation, by);
    else if (event.status == XFER_OK)
        check_success(*operation);
    if (operation->notifies) check_told(*operation);
    if (operation->buffer) std::memset(operation->buffer, kPoison, operation->length);
}

void Model::check_flags(const ModelOperation &operation) {
    const bool fenced = operation.flags & XFER_FENCED, maybe = operation.flags & XFER_MAYBE_APPLIED;
    if (operation.status == XFER_OK && (!fenced || maybe) &&
        operation.kind != ModelOperation::receive)
        violated(named(operation) + " ends well without FENCED");
    if (operation.status != XFER_OK && fenced == maybe && operation.kind != ModelOperation::receive)
        violated(named(operation) + " ends with both or none of FENCED and MAYBE_APPLIED");
    if (!operation.moves() || operation.to_self) return;
    if (maybe && !operation.left && !operation.notifies)
        violated(named(operation) + " MAYBE_APPLIED, and nothing of it ever left");
    // What notifies may have lost its last word, with which nothing of users' memory leaves.
    if (operation.status == XFER_EPEERLOST && !operation.left && !(operation.notifies && maybe))
        violated(named(operation) + " is lost with a connection that it was never sent on");
    if (operation.kind == ModelOperation::send && operation.received_by && fenced &&
        operation.status != XFER_OK)
        violated(named(operation) + " FENCED, and it was received");
}

// Whatever became of it, it has touched no other memory of its user than that of its gets.
void Model::check_rest(const ModelOperation &operation) {
    if (operation.kind != ModelOperation::single && operation.kind != ModelOperation::batch) return;
    std::map<uint64_t, uint64_t> gets;
    for (const Entry &entry : operation.entries)
        if (!entry.put) gets[entry.at] = entry.length;
    gets[operation.length] = 0;
    const uint8_t *lent = payload_table() + operation.number * 7919 % (1 << 20);
    uint64_t at = 0;
    for (const auto &[begin, length] : gets) {
        if (std::memcmp(operation.buffer + at, lent + at, begin - at) != 0)
            return violated(named(operation) + " has changed memory that is not its own");
        at = begin + length;
    }
}

void Model::check_time(const ModelOperation &operation, const Who &by) {
    const uint64_t now = net_.world.now();
    if (operation.status == XFER_EINTERNAL) violated(named(operation) + ": XFER_EINTERNAL");
    if (operation.status == XFER_ECHECKSUM && !operation.spoiled &&
        operation.kind != ModelOperation::send)
        violated(named(operation) + ": XFER_ECHECKSUM, and nothing of it had changed");
    if (operation.status == XFER_OK && operation.spoiled)
        violated(named(operation) + " ended well, and some of it had changed on its way");
    if (operation.status == XFER_OK && operation.expected && !is_somebody(*operation.expected))
        violated(named(operation) + " ended well with an engine that was not expected");
    if (!operation.timeout) return;
    const uint64_t frozen = by.frozen - operation.frozen;
    if (now > operation.submitted + operation.timeout + frozen + kSlack)
        violated(named(operation) + " ends long after its deadline");
}

// Nothing is canceled that nobody withdraws, but what a peer does not receive. Memory is refused
// only if it was taken back, or if who asks for it may still be connected with the engine that was
// there before its owner.
void Model::check_reason(const ModelOperation &operation, const Who &by) {
    const xfer_status_t status = operation.status;
    if (status == XFER_ECANCELED && !operation.withdrawn && !by.closing &&
        operation.kind != ModelOperation::send)
        violated(named(operation) + " is canceled, and nobody has asked for that");
    if (!operation.moves() || !operation.lent) return;
    const bool turned_away =
        status == XFER_EACCESS && std::any_of(who_.begin(), who_.end(), [&](const auto &at) {
            return at.second.turns_away && at.second.node == who_[operation.lent->owner].node;
        });
    if ((status == XFER_EACCESS && !turned_away) || status == XFER_ERANGE)
        violated(named(operation) + " is refused what it was given");
    if (status != XFER_ESTALE && status != XFER_EREVOKED) return;
    const Lent &lent = *operation.lent;
    const Who &owner = who_[lent.owner];
    const bool taken = lent.close_called || lent.revoke_called || lent.lapsed(net_.world.now()) ||
                       (lent.whole && lent.whole->close_called);
    const bool only = std::none_of(who_.begin(), who_.end(), [&](const auto &at) {
        return at.second.node == owner.node && at.first != lent.owner;
    });
    if (!taken && !owner.dead && !owner.closing && only)
        violated(named(operation) + " is refused memory that is still lent");
}

// The bytes are where they belong at this moment.
void Model::check_success(ModelOperation &operation) {
    if (operation.kind == ModelOperation::question || operation.kind == ModelOperation::receive)
        return;
    Who &owner = who_[operation.to];
    if (operation.notifies || operation.kind == ModelOperation::notify)
        operation.owed = operation.to && !operation.to_self && !owner.dead && !owner.closing;
    for (const Entry &entry : operation.entries) {
        const uint8_t *local = operation.buffer + entry.at;
        if (!entry.put) {
            if (std::memcmp(local, entry.expected, entry.length) != 0)
                violated(named(operation) + " is a get that ended well with wrong bytes");
            continue;
        }
        const Lent *lent = lent_at(entry.remote);
        if (!operation.to_self && entry.landed != entry.length)
            violated(named(operation) + " is a put that ended well, and not all of it landed");
        if (lent && !lent->over && std::memcmp(local, entry.remote, entry.length) != 0)
            violated(named(operation) + " is a put that ended well, and the owner has other bytes");
    }
}

void Model::received(const xfer_event_t &event, ModelOperation &receive, const Who &by) {
    if (event.status != XFER_OK && event.status != XFER_ETRUNC) return;
    const uint64_t number = receive.length >= kHeader ? load<uint64_t>(receive.buffer) : 0;
    ModelOperation *sent = find(number);
    if (!sent || sent->kind != ModelOperation::send)
        return violated(named(receive) + " got a message that nobody sent");
    if (sent->received_by) violated(named(*sent) + " is received twice");
    sent->received_by = receive.number;
    sent->received_at = by.number;
    const uint64_t length = std::min(sent->length, receive.length);
    const uint8_t *payload = payload_table() + number * 7919 % (1 << 20);
    if (event.bytes != sent->length || event.tag != sent->tag)
        violated(named(*sent) + " is received with another length or tag");
    if ((event.status == XFER_ETRUNC) != (sent->length > receive.length))
        violated(named(*sent) + " is told truncated wrongly");
    if (std::memcmp(receive.buffer + kHeader, payload + kHeader, length - kHeader) != 0)
        violated(named(*sent) + " is received with other bytes");
    if (sent->ended && sent->status != XFER_OK && (sent->flags & XFER_FENCED))
        violated(named(*sent) + " ended FENCED, and then it was received");
    if (sent->expected && by.id != *sent->expected)
        violated(named(*sent) + " is received by an engine that was not expected");
    const auto *id = static_cast<const xfer_id_t *>(event.data);
    if (!id || id->incarnation != who_[sent->from].incarnation)
        violated(named(*sent) + " is told to come from another");
}

void Model::peer_down(uint32_t at, uint32_t from, uint64_t generation) {
    uint64_t &down = down_[{at, from}];
    down = std::max(down, generation);
}

// ---- when all is over

void Model::check_buffer(const ModelOperation &operation) {
    const uint8_t *begin = operation.buffer, *end = begin + operation.length;
    if (std::find_if(begin, end, [](uint8_t byte) { return byte != kPoison; }) != end)
        violated(named(operation) + ": its memory changed after its end");
}

void Model::check_end() {
    for (const auto &[number, held] : all_) {
        const ModelOperation &operation = *held;
        const Who &by = who_[operation.from];
        if (by.dead) continue;
        if (!operation.ended) violated(named(operation) + " never ended");
        if (operation.buffer &&
            by_buffer_[reinterpret_cast<Address>(operation.buffer)] == held.get())
            check_buffer(operation);
        if (operation.owed && !operation.told && !operation.key && !who_[operation.to].dead)
            violated(named(operation) + " ended well, and its owner was never told");
        if (operation.ordered && operation.left && !by.late) check_ordered(operation);
        const bool received = operation.received_by != 0;
        if (operation.kind == ModelOperation::send && operation.status == XFER_OK &&
            operation.sync && !received && operation.to && !who_[operation.to].dead)
            violated(named(operation) + " ended well, and nobody received it");
        if (operation.kind == ModelOperation::send && operation.status != XFER_OK &&
            (operation.flags & XFER_FENCED) && received)
            violated(named(operation) + " ended FENCED, and it was received");
    }
    for (const auto &lent : lent_)
        if (!lent->over && !who_[lent->owner].dead) check_words(*lent);
    check_order();
    check_counts();
}

void Model::check_ordered(const ModelOperation &operation) {
    for (const auto &[number, earlier] : all_) {
        if (number >= operation.number) return;
        const bool counts = earlier->ep == operation.ep &&
                            earlier->kind != ModelOperation::receive &&
                            earlier->kind != ModelOperation::question && !earlier->quiet;
        if (counts && earlier->ended_at > operation.left_at)
            violated(named(operation) + " is ordered, and began before the end of " +
                     named(*earlier));
    }
}

// Of one endpoint and one tag the first message went to the first receive.
void Model::check_order() {
    std::map<std::tuple<uint64_t, uint32_t, uint64_t, uint64_t>, uint64_t> last;
    for (const auto &[number, operation] : all_) {
        if (operation->kind != ModelOperation::send || !operation->received_by) continue;
        // A receive that names an endpoint may have come too early to know who that is.
        const uint64_t named_ep = all_.at(operation->received_by)->ep;
        uint64_t &before = last[{operation->ep, operation->received_at, named_ep, operation->tag}];
        if (operation->received_by < before)
            violated(named(*operation) + " overtook one that was sent before it");
        before = operation->received_by;
    }
}

}  // namespace xfer
