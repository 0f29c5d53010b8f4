// SPDX-License-Identifier: Apache-2.0
#include "wire/hello.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "util/check.h"
#include "wire/cbor.h"
#include "wire/status.h"

namespace xfer {

namespace {

using cbor::Item;
using cbor::Type;

constexpr std::array<uint8_t, 4> kMagic = {'X', 'F', 'E', 'R'};
constexpr size_t kKindAt = 4, kVersionMinAt = 5, kVersionMaxAt = 6, kProofLengthAt = 7;
constexpr size_t kLengthAt = 8, kZeroAt = 12;

// Sorted.
constexpr std::array<std::string_view, 21> kKeys = {
    "ab",   "ask", "blob", "feat",  "gen",  "held", "id",  "inc", "key", "lane", "lis",
    "need", "non", "ops",  "retry", "seen", "seq",  "sil", "st",  "tok", "tra"};
static_assert(std::is_sorted(kKeys.begin(), kKeys.end()));

// What a kind of message carries.
struct Parts {
    bool identity = false;
    bool offer = false;  // the rest of an identity: features, keyed
    bool statement = false;
    bool terms = false;
    bool questions = false;
    bool token = false;
    bool lane = false;
    bool refusal = false;
    bool proof = false;
};

std::optional<Parts> parts_of(HelloKind kind) {
    switch (kind) {
    case HelloKind::hello:
        return Parts{.identity = true, .offer = true, .statement = true};
    case HelloKind::reply:
        return Parts{.identity = true, .offer = true, .statement = true, .proof = true};
    case HelloKind::proof:
        return Parts{.statement = true, .terms = true, .questions = true, .proof = true};
    case HelloKind::ready:
        return Parts{.statement = true, .terms = true, .token = true};
    case HelloKind::refuse:
        return Parts{.refusal = true};
    case HelloKind::lane:
        return Parts{.identity = true, .lane = true, .proof = true};
    case HelloKind::lane_ready:
        return Parts{.lane = true};
    }
    return std::nullopt;
}

// All that a message may carry, in the order of the keys, as it is written.
template <typename Visitor, typename Message>
void each_field(Visitor &visit, const Parts &parts, Message &hello) {
    if (parts.statement) visit.number("ab", hello.statement.abandoned);
    if (parts.questions) visit.questions("ask", hello.questions);
    if (parts.terms) visit.blob("blob", hello.terms.blob, kMaxBlob);
    if (parts.offer) visit.number("feat", hello.identity.features);
    if (parts.identity && parts.lane) visit.optional("gen", hello.generation);
    if (parts.statement) visit.number("held", hello.statement.held);
    if (parts.identity) visit.bytes("id", hello.identity.id);
    if (parts.identity) visit.number("inc", hello.identity.incarnation);
    if (parts.offer) visit.flag("key", hello.identity.keyed);
    if (parts.lane) visit.number("lane", hello.lane, 1);
    if (parts.terms) visit.texts("lis", hello.terms.listens, kMaxListenUris, kMaxUri);
    if (parts.identity) visit.bytes("non", hello.identity.nonce);
    if (parts.terms) visit.number("ops", hello.terms.max_ops, 1);
    if (parts.refusal) visit.number("retry", hello.retry_ms);
    if (parts.statement) visit.number("seen", hello.statement.seen);
    if (parts.identity) visit.number("seq", hello.identity.sequence, 1);
    if (parts.terms) visit.number("sil", hello.terms.silence_ms);
    if (parts.refusal) visit.status("st", hello.status);
    if (parts.token) visit.bytes("tok", hello.token);
    if (parts.terms) visit.texts("tra", hello.terms.transports, kMaxTransports, kMaxTransportName);
}

// ---- writing

class Put {
public:
    explicit Put(cbor::Writer &out) : out_(out) {}
    size_t count() const { return count_; }

    void number(const char *key, uint64_t value, uint64_t = 0) { named(key).number(value); }
    void optional(const char *key, uint64_t value) {
        if (value) number(key, value);
    }
    void status(const char *key, Status value) {
        if (value < 0)
            named(key).negative(value);
        else
            named(key).number(static_cast<uint64_t>(value));
    }
    void flag(const char *key, bool value) { named(key).flag(value); }
    void bytes(const char *key, ConstBytes value) { named(key).bytes(value); }
    void blob(const char *key, ConstBytes value, size_t) { named(key).bytes(value); }
    void texts(const char *key, const std::vector<std::string> &list, size_t, size_t) {
        named(key).list(list.size());
        for (const std::string &text : list)
            out_.text(text);
    }
    void questions(const char *key, const std::vector<Question> &list) {
        named(key).list(list.size());
        for (const auto &[name, wait] : list) {
            out_.list(2);
            out_.bytes({reinterpret_cast<const uint8_t *>(name.data()), name.size()});
            out_.flag(wait);
        }
    }

private:
    cbor::Writer &named(const char *key) {
        ++count_;
        out_.text(key);
        return out_;
    }
    cbor::Writer &out_;
    size_t count_ = 0;
};

// A map whose count is known only when it is written: it fits the one byte of a map's head.
size_t write_map(const Hello &hello, const Parts &parts, Bytes out) {
    constexpr size_t kHead = 1, kMostInHead = 23;
    cbor::Writer entries(out.subspan(kHead)), head(out.first(kHead));
    Put put(entries);
    each_field(put, parts, hello);
    XFER_CHECK(put.count() <= kMostInHead);
    head.map(put.count());
    return kHead + entries.size();
}

// ---- reading

Failure broken(Text what) {
    return {XFER_EPROTO, XFER_ORIGIN_NONE, 0, "handshake: " + std::string_view(what)};
}

// The body of a message: one map and nothing else, no key twice. Knows where each key stands.
class Map {
public:
    explicit Map(ConstBytes body) : body_(body) {}

    std::optional<Failure> index() {
        cbor::Reader whole(body_), reader(body_);
        if (!whole.skip(kMaxNesting) || whole.left()) return broken("malformed CBOR");
        const Item map = reader.next();
        if (map.type != Type::map) return broken("not a CBOR map");
        for (uint64_t left = map.value; left > 0; --left) {
            keys_[count_++] = static_cast<uint16_t>(body_.size() - reader.left());
            reader.next();
            reader.skip(kMaxNesting);
        }
        const auto key = [this](uint16_t at) { return key_at(at); };
        std::ranges::sort(keys(), {}, key);
        if (std::ranges::adjacent_find(keys(), {}, key) != keys().end())
            return broken("a key stands twice");
        return std::nullopt;
    }
    // What follows the key.
    std::optional<cbor::Reader> find(std::string_view key) {
        const auto at =
            std::ranges::lower_bound(keys(), key, {}, [this](uint16_t at) { return key_at(at); });
        if (at == keys().end() || key_at(*at) != key) return std::nullopt;
        cbor::Reader reader(body_.subspan(*at));
        reader.next();
        return reader;
    }

private:
    // A key and its value take two bytes or more.
    static constexpr size_t kMostKeys = kMaxHello / 2;
    std::span<uint16_t> keys() { return {keys_, count_}; }
    std::string_view key_at(uint16_t at) const {
        return cbor::Reader(body_.subspan(at)).next().text();
    }

    ConstBytes body_;
    uint16_t keys_[kMostKeys];
    size_t count_ = 0;
};

bool printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// Takes typed values out of a map; the first that is missing or wrong is remembered.
class Take {
public:
    explicit Take(Map &map) : map_(map) {}

    const std::optional<Failure> &failure() const { return failure_; }

    template <typename T>
    void number(const char *key, T &out, uint64_t least = 0) {
        const auto item = get(key, Type::number);
        if (!item) return;
        if (item->value < least || item->value > std::numeric_limits<T>::max())
            return fail(key, "is out of range");
        out = static_cast<T>(item->value);
    }

    // 0 where it does not stand.
    void optional(const char *key, uint64_t &out) {
        if (map_.find(key)) number(key, out, 1);
    }

    void status(const char *key, Status &out) {
        const auto item = get(key, Type::negative);
        if (!item) return;
        // The least number has no positive counterpart, which statuses are counted by.
        if (item->value >= uint64_t{std::numeric_limits<Status>::max()})
            return fail(key, "is out of range");
        out = status_of_peer(-1 - static_cast<Status>(item->value));
    }

    void flag(const char *key, bool &out) {
        if (const auto item = get(key, Type::flag)) out = item->value != 0;
    }

    template <size_t size>
    void bytes(const char *key, std::array<uint8_t, size> &out) {
        const auto item = get(key, Type::bytes);
        if (!item) return;
        if (item->bytes.size() != size) return fail(key, "has a wrong length");
        std::copy(item->bytes.begin(), item->bytes.end(), out.begin());
    }

    void blob(const char *key, std::vector<uint8_t> &out, size_t most) {
        const auto item = get(key, Type::bytes);
        if (!item) return;
        if (item->bytes.size() > most) return fail(key, "is too long");
        out.assign(item->bytes.begin(), item->bytes.end());
    }

    template <typename Visit>
    void each_text(const char *key, size_t most, size_t longest, Visit visit) {
        auto entries = list(key, most);
        if (!entries) return;
        for (uint64_t left = entries->count; left > 0; --left) {
            const Item entry = entries->reader.next();
            if (entry.type != Type::text) return fail(key, "has a wrong type");
            const std::string_view text = entry.text();
            if (text.empty() || text.size() > longest || !printable(text))
                return fail(key, "has a bad entry");
            visit(text);
        }
    }

    void texts(const char *key, std::vector<std::string> &out, size_t most, size_t longest) {
        each_text(key, most, longest, [&](std::string_view text) { out.emplace_back(text); });
    }

    void questions(const char *key, std::vector<Question> &out) {
        auto entries = list(key, kMaxQuestions);
        if (!entries) return;
        cbor::Reader &reader = entries->reader;
        for (uint64_t left = entries->count; left > 0; --left) {
            const Item entry = reader.next();
            if (entry.type != Type::list || entry.value != 2) return fail(key, "has a wrong type");
            const Item name = reader.next();
            if (name.type != Type::bytes) return fail(key, "has a wrong type");
            const Item wait = reader.next();
            if (wait.type != Type::flag) return fail(key, "has a wrong type");
            if (name.bytes.empty() || name.bytes.size() > kMaxName)
                return fail(key, "has a bad entry");
            out.push_back({std::string(name.text()), wait.value != 0});
        }
    }

    void fail(const char *key, const char *what) {
        if (!failure_) failure_ = broken(std::string("\"") + key + "\" " + what);
    }

private:
    struct Entries {
        uint64_t count;
        cbor::Reader reader;
    };
    std::optional<Entries> list(const char *key, size_t most) {
        std::optional<cbor::Reader> at = map_.find(key);
        if (!at) return fail(key, "is missing"), std::nullopt;
        const Item item = at->next();
        if (item.type != Type::list) return fail(key, "has a wrong type"), std::nullopt;
        if (item.value > most) return fail(key, "has too many entries"), std::nullopt;
        return Entries{item.value, *at};
    }
    std::optional<Item> get(const char *key, Type type) {
        std::optional<cbor::Reader> at = map_.find(key);
        if (!at) return fail(key, "is missing"), std::nullopt;
        const Item item = at->next();
        if (item.type != type) return fail(key, "has a wrong type"), std::nullopt;
        return item;
    }

    Map &map_;
    std::optional<Failure> failure_;
};

// A sender of a later version may demand that some keys be understood.
std::optional<Failure> check_needed(Take &take, Map &map) {
    if (!map.find("need")) return std::nullopt;
    std::string_view lacking;
    take.each_text("need", kMaxNeeded, kMaxName, [&](std::string_view key) {
        if (lacking.empty() && !std::binary_search(kKeys.begin(), kKeys.end(), key)) lacking = key;
    });
    if (take.failure() || lacking.empty()) return take.failure();
    return Failure{
        XFER_EVERSION, XFER_ORIGIN_NONE, 0,
        "handshake: the peer needs \"" + std::string(lacking) + "\", which this version lacks"};
}

}  // namespace

std::vector<uint8_t> encode_hello(const Hello &hello) {
    const std::optional<Parts> parts = parts_of(hello.kind);
    XFER_CHECK(parts);
    const size_t proof = parts->proof ? sizeof(Proof) : 0;
    uint8_t message[kMaxHello] = {};
    const size_t size =
        kHelloHeader + write_map(hello, *parts, Bytes(message).subspan(kHelloHeader));
    const size_t total = size + proof;
    XFER_CHECK(total <= kMaxHello);

    std::copy(kMagic.begin(), kMagic.end(), message);
    message[kKindAt] = static_cast<uint8_t>(hello.kind);
    message[kVersionMinAt] = kWireVersion;
    message[kVersionMaxAt] = kWireVersion;
    message[kProofLengthAt] = static_cast<uint8_t>(proof);
    store<uint32_t>(&message[kLengthAt], static_cast<uint32_t>(total - kHelloHeader));
    return {message, message + size};
}

void append_proof(std::vector<uint8_t> &message, const Proof &proof) {
    message.insert(message.end(), proof.begin(), proof.end());
}

Result<HelloHeader> decode_hello_header(const uint8_t *from) {
    if (!std::equal(kMagic.begin(), kMagic.end(), from)) return broken("not this protocol");
    const unsigned least = from[kVersionMinAt], most = from[kVersionMaxAt];
    if (least == 0 || least > most) return broken("a bad version range");
    if (least > kWireVersion || most < kWireVersion) {
        return Failure{XFER_EVERSION, XFER_ORIGIN_NONE, 0,
                       "handshake: the peer speaks versions " + std::to_string(least) + " to " +
                           std::to_string(most) + ", this engine only " +
                           std::to_string(kWireVersion)};
    }
    const HelloHeader header{static_cast<HelloKind>(from[kKindAt]),
                             load<uint32_t>(from + kLengthAt)};
    const std::optional<Parts> parts = parts_of(header.kind);
    if (!parts) return broken("a message of an unknown kind");
    const size_t proof = parts->proof ? sizeof(Proof) : 0;
    if (from[kProofLengthAt] != proof) return broken("a proof of a wrong length");
    if (load<uint32_t>(from + kZeroAt) != 0) return broken("a malformed header");
    if (header.length > kMaxHello - kHelloHeader) {
        return Failure{XFER_ETOOBIG, XFER_ORIGIN_NONE, 0, "handshake: a message that is too long"};
    }
    if (header.length <= proof) return broken("a message that is too short");
    return header;
}

Result<Hello> decode_hello(ConstBytes message) {
    if (message.size() < kHelloHeader) return broken("a message that is too short");
    Result<HelloHeader> header = decode_hello_header(message.data());
    if (!header) return header.error();
    if (header->length != message.size() - kHelloHeader) return broken("a message cut or padded");
    const Parts parts = *parts_of(header->kind);

    Map map(without_proof(message).subspan(kHelloHeader));
    if (std::optional<Failure> failure = map.index()) return *failure;
    Take take(map);
    if (std::optional<Failure> failure = check_needed(take, map)) return *failure;
    Hello hello;
    hello.kind = header->kind;
    each_field(take, parts, hello);
    if (take.failure()) return *take.failure();
    if (parts.proof) {
        const ConstBytes proof = message.last(hello.proof.size());
        std::copy(proof.begin(), proof.end(), hello.proof.begin());
    }
    return hello;
}

ConstBytes without_proof(ConstBytes message) {
    if (message.size() < kHelloHeader) return message;
    const size_t proof = message[kProofLengthAt];
    return message.size() < kHelloHeader + proof ? message : message.first(message.size() - proof);
}

}  // namespace xfer
