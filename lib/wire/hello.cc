// SPDX-License-Identifier: Apache-2.0
#include "wire/hello.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "util/check.h"

namespace xfer {

namespace {

using json = nlohmann::json;

constexpr std::array<uint8_t, 4> kMagic = {'X', 'F', 'E', 'R'};
constexpr size_t kKindAt = 4, kVersionMinAt = 5, kVersionMaxAt = 6, kProofLengthAt = 7;
constexpr size_t kLengthAt = 8, kZeroAt = 12;

// Sorted.
constexpr std::array<std::string_view, 20> kKeys = {
    "ab",   "ask", "blob", "feat",  "held", "id",  "inc", "key", "lane", "lis",
    "need", "non", "ops",  "retry", "seen", "seq", "sil", "st",  "tok",  "tra"};
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

template <typename T>
json binary(const T &bytes) {
    return json::binary(json::binary_t::container_type(bytes.begin(), bytes.end()));
}

json to_map(const Hello &hello, const Parts &parts) {
    json map = json::object();
    if (parts.identity) {
        map["id"] = binary(hello.identity.id);
        map["inc"] = hello.identity.incarnation;
        map["non"] = binary(hello.identity.nonce);
        map["seq"] = hello.identity.sequence;
    }
    if (parts.offer) {
        map["feat"] = hello.identity.features;
        map["key"] = hello.identity.keyed;
    }
    if (parts.statement) {
        map["ab"] = hello.statement.abandoned;
        map["seen"] = hello.statement.seen;
        map["held"] = hello.statement.held;
    }
    if (parts.terms) {
        map["ops"] = hello.terms.max_ops;
        map["sil"] = hello.terms.silence_ms;
        map["blob"] = binary(hello.terms.blob);
        map["lis"] = hello.terms.listens;
        map["tra"] = hello.terms.transports;
    }
    if (parts.questions) {
        map["ask"] = json::array();
        for (const Question &question : hello.questions)
            map["ask"].push_back({binary(question.name), question.wait});
    }
    if (parts.token) map["tok"] = binary(hello.token);
    if (parts.lane) map["lane"] = hello.lane;
    if (parts.refusal) {
        map["st"] = hello.status;
        map["retry"] = hello.retry_ms;
    }
    return map;
}

Failure broken(std::string what) {
    return {XFER_EPROTO, XFER_ORIGIN_NONE, 0, "handshake: " + std::move(what)};
}

// The start of a CBOR item: its major type, and its value or the count of what follows.
struct Head {
    uint8_t major;
    uint64_t count;
};

std::optional<Head> take_head(ConstBytes &rest) {
    if (rest.empty()) return std::nullopt;
    Head head{static_cast<uint8_t>(rest[0] >> 5), static_cast<uint64_t>(rest[0] & 31)};
    rest = rest.subspan(1);
    if (head.count < 24) return head;
    if (head.count > 27) return std::nullopt;  // reserved, or of indefinite length
    const size_t width = size_t{1} << (head.count - 24);
    if (rest.size() < width) return std::nullopt;
    head.count = 0;
    for (uint8_t byte : rest.first(width))
        head.count = head.count << 8 | byte;
    rest = rest.subspan(width);
    return head;
}

// Steps over one item. The parser behind from_cbor() recurses as deep as its input says and throws
// on absurd counts; after this it meets neither.
bool skip_item(ConstBytes &rest, int nesting) {
    const std::optional<Head> head = take_head(rest);
    if (!head) return false;
    switch (head->major) {
    case 0:  // numbers
    case 1:
    case 7:  // booleans, null, floats
        return true;
    case 2:  // bytes, text
    case 3:
        if (head->count > rest.size()) return false;
        rest = rest.subspan(head->count);
        return true;
    case 4:  // list
    case 5:  // map
        if (nesting == 0 || head->count > rest.size()) return false;
        for (uint64_t left = head->count * (head->major - 3); left > 0; left--) {
            if (!skip_item(rest, nesting - 1)) return false;
        }
        return true;
    default:  // tags
        return false;
    }
}

// One map and nothing else.
Result<json> parse_map(ConstBytes body) {
    ConstBytes rest = body;
    if (!skip_item(rest, kMaxNesting) || !rest.empty()) return broken("malformed CBOR");
    json map = json::from_cbor(body.begin(), body.end(), true, false);
    if (!map.is_object()) return broken("not a CBOR map");
    rest = body;
    if (map.size() != take_head(rest)->count) return broken("a key stands twice");
    return map;
}

bool printable(const std::string &text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// Takes typed values out of a map; the first that is missing or wrong is remembered.
class Fields {
public:
    explicit Fields(const json &map) : map_(map) {}

    const std::optional<Failure> &failure() const { return failure_; }

    template <typename T>
    void number(const char *key, T &out, T least = 0) {
        const auto *value = get<json::number_unsigned_t>(key);
        if (!value) return;
        if (*value < least || *value > std::numeric_limits<T>::max())
            return fail(key, "is out of range");
        out = static_cast<T>(*value);
    }

    void status(const char *key, Status &out) {
        const auto *value = get<json::number_integer_t>(key);
        if (!value) return;
        // The least number has no positive counterpart, which statuses are counted by.
        if (*value >= 0 || *value <= std::numeric_limits<Status>::min())
            return fail(key, "is out of range");
        out = static_cast<Status>(*value);
    }

    void flag(const char *key, bool &out) {
        if (const auto *value = get<json::boolean_t>(key)) out = *value;
    }

    template <size_t size>
    void bytes(const char *key, std::array<uint8_t, size> &out) {
        const auto *value = get<json::binary_t>(key);
        if (!value) return;
        if (value->size() != size) return fail(key, "has a wrong length");
        std::copy(value->begin(), value->end(), out.begin());
    }

    void blob(const char *key, std::vector<uint8_t> &out, size_t most) {
        const auto *value = get<json::binary_t>(key);
        if (!value) return;
        if (value->size() > most) return fail(key, "is too long");
        out.assign(value->begin(), value->end());
    }

    void texts(const char *key, std::vector<std::string> &out, size_t most, size_t longest) {
        const auto *list = get<json::array_t>(key);
        if (!list) return;
        if (list->size() > most) return fail(key, "has too many entries");
        for (const json &entry : *list) {
            const auto *text = entry.get_ptr<const json::string_t *>();
            if (!text) return fail(key, "has a wrong type");
            if (text->empty() || text->size() > longest || !printable(*text)) {
                return fail(key, "has a bad entry");
            }
            out.push_back(*text);
        }
    }

    void questions(const char *key, std::vector<Question> &out) {
        const auto *list = get<json::array_t>(key);
        if (!list) return;
        if (list->size() > kMaxQuestions) return fail(key, "has too many entries");
        for (const json &entry : *list) {
            if (!entry.is_array() || entry.size() != 2 || !entry[0].is_binary() ||
                !entry[1].is_boolean())
                return fail(key, "has a wrong type");
            const auto &name = entry[0].get_binary();
            if (name.empty() || name.size() > kMaxName) return fail(key, "has a bad entry");
            out.push_back({{name.begin(), name.end()}, entry[1].get<bool>()});
        }
    }

private:
    template <typename T>
    const T *get(const char *key) {
        const auto found = map_.find(key);
        if (found == map_.end()) {
            fail(key, "is missing");
            return nullptr;
        }
        // The library takes an unsigned number for a signed one as well, and would wrap it.
        const bool wraps =
            found->is_number_unsigned() && !std::is_same_v<T, json::number_unsigned_t>;
        const T *value = wraps ? nullptr : found->template get_ptr<const T *>();
        if (!value) fail(key, "has a wrong type");
        return value;
    }

    void fail(const char *key, const char *what) {
        if (!failure_) failure_ = broken(std::string("\"") + key + "\" " + what);
    }

    const json &map_;
    std::optional<Failure> failure_;
};

void read_parts(Fields &fields, const Parts &parts, Hello &hello) {
    if (parts.identity) {
        fields.bytes("id", hello.identity.id);
        fields.number("inc", hello.identity.incarnation);
        fields.bytes("non", hello.identity.nonce);
        fields.number("seq", hello.identity.sequence, uint64_t{1});
    }
    if (parts.offer) {
        fields.number("feat", hello.identity.features);
        fields.flag("key", hello.identity.keyed);
    }
    if (parts.statement) {
        fields.number("ab", hello.statement.abandoned);
        fields.number("seen", hello.statement.seen);
        fields.number("held", hello.statement.held);
    }
    if (parts.terms) {
        fields.number("ops", hello.terms.max_ops, uint32_t{1});
        fields.number("sil", hello.terms.silence_ms);
        fields.blob("blob", hello.terms.blob, kMaxBlob);
        fields.texts("lis", hello.terms.listens, kMaxListenUris, kMaxUri);
        fields.texts("tra", hello.terms.transports, kMaxTransports, kMaxTransportName);
    }
    if (parts.questions) fields.questions("ask", hello.questions);
    if (parts.token) fields.bytes("tok", hello.token);
    if (parts.lane) fields.number("lane", hello.lane, uint32_t{1});
    if (parts.refusal) {
        fields.status("st", hello.status);
        fields.number("retry", hello.retry_ms);
    }
}

// A sender of a later version may demand that some keys be understood.
std::optional<Failure> check_needed(Fields &fields, const json &map) {
    if (map.find("need") == map.end()) return std::nullopt;
    std::vector<std::string> needed;
    fields.texts("need", needed, kMaxNeeded, kMaxName);
    if (fields.failure()) return fields.failure();
    for (const std::string &key : needed) {
        if (!std::binary_search(kKeys.begin(), kKeys.end(), key)) {
            return Failure{XFER_EVERSION, XFER_ORIGIN_NONE, 0,
                           "handshake: the peer needs \"" + key + "\", which this version lacks"};
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<uint8_t> encode_hello(const Hello &hello) {
    const std::optional<Parts> parts = parts_of(hello.kind);
    XFER_CHECK(parts);
    const size_t proof = parts->proof ? sizeof(Proof) : 0;
    std::vector<uint8_t> message(kHelloHeader);
    json::to_cbor(to_map(hello, *parts), message);
    const size_t total = message.size() + proof;
    XFER_CHECK(total <= kMaxHello);

    std::copy(kMagic.begin(), kMagic.end(), message.begin());
    message[kKindAt] = static_cast<uint8_t>(hello.kind);
    message[kVersionMinAt] = kWireVersion;
    message[kVersionMaxAt] = kWireVersion;
    message[kProofLengthAt] = static_cast<uint8_t>(proof);
    store<uint32_t>(&message[kLengthAt], static_cast<uint32_t>(total - kHelloHeader));
    return message;
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

    Result<json> map = parse_map(without_proof(message).subspan(kHelloHeader));
    if (!map) return map.error();
    Fields fields(*map);
    if (std::optional<Failure> failure = check_needed(fields, *map)) return *failure;
    Hello hello;
    hello.kind = header->kind;
    read_parts(fields, parts, hello);
    if (fields.failure()) return *fields.failure();
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
