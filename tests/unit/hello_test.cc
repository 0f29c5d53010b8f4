// SPDX-License-Identifier: Apache-2.0
#include "wire/hello.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

using namespace xfer;
using nlohmann::json;

namespace {

using Message = std::vector<uint8_t>;

constexpr HelloKind kKinds[] = {HelloKind::hello,     HelloKind::reply,  HelloKind::proof,
                                HelloKind::ready,     HelloKind::refuse, HelloKind::lane,
                                HelloKind::lane_ready};

bool has_proof(HelloKind kind) {
    return kind == HelloKind::reply || kind == HelloKind::proof || kind == HelloKind::lane;
}

template <typename T>
T counting_from(uint8_t first) {
    T bytes;
    for (uint8_t &byte : bytes)
        byte = first++;
    return bytes;
}

// Every member set, also those that its kind does not carry.
Hello full(HelloKind kind) {
    Hello hello;
    hello.kind = kind;
    hello.identity = {counting_from<EngineId>(1),
                      0xfedcba9876543210,
                      counting_from<Nonce>(101),
                      7,
                      UINT64_MAX,
                      true};
    hello.statement = {5, UINT64_MAX, 3};
    hello.terms = {64, 15000, {0, 255, 1}, {"tcp://10.0.0.1:7000", "tcp://[::1]:7001"}, {"tcp"}};
    hello.questions = {{"weights", false}, {std::string("\0\xff", 2), true}};
    hello.token = counting_from<Token>(201);
    hello.lane = 2;
    hello.status = XFER_EOVERLOAD;
    hello.retry_ms = 250;
    hello.proof = counting_from<Proof>(50);
    return hello;
}

Message whole(const Hello &hello) {
    Message message = encode_hello(hello);
    if (has_proof(hello.kind)) append_proof(message, hello.proof);
    return message;
}

Status decoded(const Message &message) {
    Result<Hello> hello = decode_hello(message);
    return hello ? XFER_OK : hello.error().status;
}

// A message of that kind around any body.
Message around(HelloKind kind, const Message &body) {
    Message message(kHelloHeader);
    const uint8_t proof = has_proof(kind) ? 32 : 0;
    const uint8_t start[] = {'X', 'F', 'E', 'R', static_cast<uint8_t>(kind), 1, 1, proof};
    std::copy(std::begin(start), std::end(start), message.begin());
    message.insert(message.end(), body.begin(), body.end());
    message.resize(message.size() + proof);
    store<uint32_t>(&message[8], static_cast<uint32_t>(message.size() - kHelloHeader));
    return message;
}

json map_of(HelloKind kind) {
    const Message message = encode_hello(full(kind));
    return json::from_cbor(message.begin() + kHelloHeader, message.end());
}

Status decoded(HelloKind kind, const json &map) {
    return decoded(around(kind, json::to_cbor(map)));
}

json with(json map, const char *key, json value) {
    map[key] = std::move(value);
    return map;
}

json bytes(size_t count) {
    return json::binary(Message(count, 9));
}

}  // namespace

TEST_CASE("every kind carries its own members and no others") {
    for (HelloKind kind : kKinds) {
        CAPTURE(static_cast<int>(kind));
        const Hello sent = full(kind);
        const Message message = whole(sent);
        Result<HelloHeader> header = decode_hello_header(message.data());
        REQUIRE(header);
        CHECK(header->kind == kind);
        CHECK(header->length == message.size() - kHelloHeader);
        Result<Hello> got = decode_hello(message);
        REQUIRE(got);
        CHECK(got->kind == kind);

        const bool meets = kind == HelloKind::hello || kind == HelloKind::reply;
        const bool lane = kind == HelloKind::lane;
        const bool terms = kind == HelloKind::proof || kind == HelloKind::ready;
        const Hello none;
        const Identity &id = meets || lane ? sent.identity : none.identity;
        CHECK(got->identity.id == id.id);
        CHECK(got->identity.incarnation == id.incarnation);
        CHECK(got->identity.nonce == id.nonce);
        CHECK(got->identity.sequence == id.sequence);
        CHECK(got->identity.features == (meets ? sent.identity.features : 0));
        CHECK(got->identity.keyed == meets);
        const Statement &statement = meets || terms ? sent.statement : none.statement;
        CHECK(got->statement.abandoned == statement.abandoned);
        CHECK(got->statement.seen == statement.seen);
        CHECK(got->statement.held == statement.held);
        const Terms &expected = terms ? sent.terms : none.terms;
        CHECK(got->terms.max_ops == expected.max_ops);
        CHECK(got->terms.silence_ms == expected.silence_ms);
        CHECK(got->terms.blob == expected.blob);
        CHECK(got->terms.listens == expected.listens);
        CHECK(got->terms.transports == expected.transports);
        const bool asks = kind == HelloKind::proof;
        REQUIRE(got->questions.size() == (asks ? 2 : 0));
        for (size_t i = 0; asks && i < 2; ++i) {
            CHECK(got->questions[i].name == sent.questions[i].name);
            CHECK(got->questions[i].wait == sent.questions[i].wait);
        }
        CHECK(got->token == (kind == HelloKind::ready ? sent.token : none.token));
        CHECK(got->lane == (lane || kind == HelloKind::lane_ready ? sent.lane : 0));
        CHECK(got->status == (kind == HelloKind::refuse ? sent.status : 0));
        CHECK(got->retry_ms == (kind == HelloKind::refuse ? sent.retry_ms : 0));
        CHECK(got->proof == (has_proof(kind) ? sent.proof : none.proof));
    }
}

TEST_CASE("the first bytes on the wire never change") {
    const Message message = whole(full(HelloKind::reply));
    CHECK(Message(message.begin(), message.begin() + 8) ==
          Message{'X', 'F', 'E', 'R', 2, 1, 1, 32});
    CHECK(load<uint32_t>(&message[8]) == message.size() - 16);
    CHECK(load<uint32_t>(&message[12]) == 0);
    CHECK(encode_hello(full(HelloKind::hello))[7] == 0);
}

TEST_CASE("without_proof is what encode_hello made") {
    for (HelloKind kind : kKinds) {
        const Message message = whole(full(kind));
        const ConstBytes part = without_proof(message);
        CHECK(Message(part.begin(), part.end()) == encode_hello(full(kind)));
    }
    Message cut = whole(full(HelloKind::lane));
    for (; !cut.empty(); cut.pop_back()) {
        const ConstBytes part = without_proof(cut);
        CHECK(part.size() <= cut.size());
    }
}

TEST_CASE("a message cut anywhere, or padded, is refused") {
    for (HelloKind kind : kKinds) {
        CAPTURE(static_cast<int>(kind));
        const Message message = whole(full(kind));
        for (size_t length = 0; length < message.size(); length++) {
            CAPTURE(length);
            Message cut(message.begin(), message.begin() + static_cast<ptrdiff_t>(length));
            CHECK(decoded(cut) == XFER_EPROTO);
            if (length <= kHelloHeader) continue;
            // The header tells the cut length too.
            store<uint32_t>(&cut[8], static_cast<uint32_t>(length - kHelloHeader));
            CHECK(decoded(cut) == XFER_EPROTO);
        }
        for (uint32_t lie : {UINT32_MAX, uint32_t{1}}) {  // one less, one more
            Message other = message;
            store<uint32_t>(&other[8], load<uint32_t>(&other[8]) + lie);
            CHECK(decoded(other) == XFER_EPROTO);
        }
        Message padded = message;
        padded.push_back(0);
        CHECK(decoded(padded) == XFER_EPROTO);
        store<uint32_t>(&padded[8], static_cast<uint32_t>(padded.size() - kHelloHeader));
        CHECK(decoded(padded) == XFER_EPROTO);
    }
}

TEST_CASE("headers that are refused, and how") {
    const Message good = encode_hello(full(HelloKind::hello));
    const auto changed = [&](size_t at, uint8_t value) {
        Message message = good;
        message[at] = value;
        Result<HelloHeader> header = decode_hello_header(message.data());
        return header ? XFER_OK : header.error().status;
    };
    CHECK(changed(6, 1) == XFER_OK);
    for (size_t at = 0; at < 4; at++)
        CHECK(changed(at, '?') == XFER_EPROTO);
    CHECK(changed(4, 0) == XFER_EPROTO);
    CHECK(changed(4, 8) == XFER_EPROTO);
    CHECK(changed(4, 2) == XFER_EPROTO);  // a reply has a proof
    CHECK(changed(5, 0) == XFER_EPROTO);
    CHECK(changed(5, 2) == XFER_EPROTO);  // from 2 to 1
    CHECK(changed(6, 255) == XFER_OK);
    CHECK(changed(7, 32) == XFER_EPROTO);
    CHECK(changed(7, 1) == XFER_EPROTO);
    CHECK(changed(10, 1) == XFER_ETOOBIG);
    for (size_t at = 12; at < 16; at++)
        CHECK(changed(at, 1) == XFER_EPROTO);

    Message later = good;
    later[5] = later[6] = 2;
    CHECK(decoded(later) == XFER_EVERSION);
    later[4] = 77;  // whose kinds we can't know
    CHECK(decoded(later) == XFER_EVERSION);

    const uint8_t tls[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0};
    CHECK(decode_hello_header(tls).error().status == XFER_EPROTO);
}

TEST_CASE("the length in the header, at and past its bounds") {
    Message message = encode_hello(full(HelloKind::hello));
    const auto with_length = [&](uint32_t length) {
        store<uint32_t>(&message[8], length);
        Result<HelloHeader> header = decode_hello_header(message.data());
        return header ? XFER_OK : header.error().status;
    };
    CHECK(with_length(0) == XFER_EPROTO);
    CHECK(with_length(1) == XFER_OK);
    CHECK(with_length(kMaxHello - kHelloHeader) == XFER_OK);
    CHECK(with_length(kMaxHello - kHelloHeader + 1) == XFER_ETOOBIG);
    CHECK(with_length(UINT32_MAX) == XFER_ETOOBIG);
    message = encode_hello(full(HelloKind::reply));
    CHECK(with_length(32) == XFER_EPROTO);
    CHECK(with_length(33) == XFER_OK);
}

TEST_CASE("every key is mandatory and has one type") {
    for (HelloKind kind : kKinds) {
        CAPTURE(static_cast<int>(kind));
        const json map = map_of(kind);
        REQUIRE(decoded(kind, map) == XFER_OK);
        for (const auto &entry : map.items()) {
            CAPTURE(entry.key());
            json without = map;
            without.erase(entry.key());
            CHECK(decoded(kind, without) == XFER_EPROTO);
            const json values[] = {nullptr, 1.5,  "text", json::object(), json::array({1}),
                                   -5,      true, 5u,     bytes(15)};
            for (const json &value : values) {
                if (value.type() == entry.value().type()) continue;
                CAPTURE(value);
                CHECK(decoded(kind, with(map, entry.key().c_str(), value)) == XFER_EPROTO);
            }
        }
    }
}

TEST_CASE("values at and past their bounds") {
    const json hello = map_of(HelloKind::hello);
    const json ready = map_of(HelloKind::ready);
    const json refuse = map_of(HelloKind::refuse);
    const json lane = map_of(HelloKind::lane_ready);
    const auto of = [](HelloKind kind, const json &map, const char *key, json value) {
        return decoded(kind, with(map, key, std::move(value)));
    };
    for (const char *key : {"id", "non"}) {
        for (size_t size : {0, 15, 16, 17, 1000}) {
            CHECK(of(HelloKind::hello, hello, key, bytes(size)) ==
                  (size == 16 ? XFER_OK : XFER_EPROTO));
        }
    }
    CHECK(of(HelloKind::ready, ready, "tok", bytes(17)) == XFER_EPROTO);
    CHECK(of(HelloKind::hello, hello, "seq", 0) == XFER_EPROTO);
    CHECK(of(HelloKind::hello, hello, "seq", UINT64_MAX) == XFER_OK);
    CHECK(of(HelloKind::hello, hello, "seen", -1) == XFER_EPROTO);
    CHECK(of(HelloKind::ready, ready, "ops", 0) == XFER_EPROTO);
    CHECK(of(HelloKind::ready, ready, "ops", 1) == XFER_OK);
    CHECK(of(HelloKind::ready, ready, "ops", UINT32_MAX) == XFER_OK);
    CHECK(of(HelloKind::ready, ready, "ops", uint64_t{1} << 32) == XFER_EPROTO);
    CHECK(of(HelloKind::ready, ready, "sil", 0) == XFER_OK);
    CHECK(of(HelloKind::ready, ready, "sil", uint64_t{1} << 32) == XFER_EPROTO);
    CHECK(of(HelloKind::ready, ready, "blob", bytes(0)) == XFER_OK);
    CHECK(of(HelloKind::ready, ready, "blob", bytes(kMaxBlob)) == XFER_OK);
    CHECK(of(HelloKind::ready, ready, "blob", bytes(kMaxBlob + 1)) == XFER_EPROTO);
    CHECK(of(HelloKind::refuse, refuse, "st", -1) == XFER_OK);
    CHECK(of(HelloKind::refuse, refuse, "st", 0) == XFER_EPROTO);
    CHECK(of(HelloKind::refuse, refuse, "st", 1) == XFER_EPROTO);
    CHECK(of(HelloKind::refuse, refuse, "st", INT32_MIN + 1) == XFER_OK);
    CHECK(of(HelloKind::refuse, refuse, "st", INT32_MIN) == XFER_EPROTO);
    for (const auto &[said, told] : {std::pair{-1000, XFER_EPROTO},
                                     {INT32_MIN + 1, XFER_EPROTO},
                                     {XFER_EINTERNAL - 1, XFER_EPROTO},
                                     {int{XFER_EINTERNAL}, XFER_EINTERNAL}}) {
        Hello hello;
        hello.kind = HelloKind::refuse;
        hello.status = said;
        CHECK(decode_hello(encode_hello(hello))->status == told);
    }
    CHECK(of(HelloKind::refuse, refuse, "st", INT64_MIN) == XFER_EPROTO);
    CHECK(of(HelloKind::refuse, refuse, "st", UINT64_MAX) == XFER_EPROTO);
    CHECK(of(HelloKind::lane_ready, lane, "lane", 0) == XFER_EPROTO);
    CHECK(of(HelloKind::lane_ready, lane, "lane", 1) == XFER_OK);
    CHECK(of(HelloKind::lane_ready, lane, "lane", uint64_t{1} << 32) == XFER_EPROTO);
}

TEST_CASE("lists at and past their bounds") {
    const json ready = map_of(HelloKind::ready);
    const auto list = [&](const char *key, size_t count, const std::string &entry) {
        return decoded(HelloKind::ready, with(ready, key, json(count, entry)));
    };
    CHECK(list("lis", 0, "") == XFER_OK);
    CHECK(list("lis", kMaxListenUris, "tcp://a:1") == XFER_OK);
    CHECK(list("lis", kMaxListenUris + 1, "tcp://a:1") == XFER_EPROTO);
    CHECK(list("lis", 1, std::string(kMaxUri, 'a')) == XFER_OK);
    CHECK(list("lis", 1, std::string(kMaxUri + 1, 'a')) == XFER_EPROTO);
    CHECK(list("tra", kMaxTransports, "tcp") == XFER_OK);
    CHECK(list("tra", kMaxTransports + 1, "tcp") == XFER_EPROTO);
    CHECK(list("tra", 1, std::string(kMaxTransportName, 'a')) == XFER_OK);
    CHECK(list("tra", 1, std::string(kMaxTransportName + 1, 'a')) == XFER_EPROTO);
    for (const char *key : {"lis", "tra"}) {
        CHECK(list(key, 1, "") == XFER_EPROTO);
        for (const std::string &text :
             {std::string("a\0b", 3), std::string("a\n"), std::string("a b"), std::string("a\x7f"),
              std::string("a\xff")}) {
            CHECK(list(key, 1, text) == XFER_EPROTO);
        }
        CHECK(decoded(HelloKind::ready, with(ready, key, json::array({"tcp", 1}))) == XFER_EPROTO);
        CHECK(decoded(HelloKind::ready, with(ready, key, json::array({bytes(3)}))) == XFER_EPROTO);
    }
}

TEST_CASE("questions keep their bounds and shape") {
    const json proof = map_of(HelloKind::proof);
    const auto asking = [&](json list) {
        return decoded(HelloKind::proof, with(proof, "ask", std::move(list)));
    };
    const json one = {bytes(3), true};
    CHECK(asking(json::array()) == XFER_OK);
    CHECK(asking(json(kMaxQuestions, one)) == XFER_OK);
    CHECK(asking(json(kMaxQuestions + 1, one)) == XFER_EPROTO);
    CHECK(asking({{bytes(kMaxName), false}}) == XFER_OK);
    CHECK(asking({{bytes(kMaxName + 1), false}}) == XFER_EPROTO);
    CHECK(asking({{bytes(0), false}}) == XFER_EPROTO);
    CHECK(asking({{bytes(3)}}) == XFER_EPROTO);
    CHECK(asking({{bytes(3), true, 1}}) == XFER_EPROTO);
    CHECK(asking({{bytes(3), 1}}) == XFER_EPROTO);
    CHECK(asking({{"abc", true}}) == XFER_EPROTO);
    CHECK(asking({bytes(3)}) == XFER_EPROTO);
    CHECK(asking({{"name", bytes(3)}, {"wait", true}}) == XFER_EPROTO);
}

TEST_CASE("the fullest message that the bounds allow fits") {
    Hello hello = full(HelloKind::ready);
    hello.statement = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    hello.terms = {UINT32_MAX,
                   UINT32_MAX,
                   Message(kMaxBlob, 1),
                   {kMaxListenUris, std::string(kMaxUri, 'u')},
                   {kMaxTransports, std::string(kMaxTransportName, 't')}};
    hello.questions.assign(kMaxQuestions, {std::string(kMaxName, 'q'), true});
    for (HelloKind kind : {HelloKind::ready, HelloKind::proof}) {
        hello.kind = kind;
        CHECK(decoded(whole(hello)) == XFER_OK);
    }
}

TEST_CASE("unknown keys are skipped, unless they are needed") {
    const json map =
        with(map_of(HelloKind::hello), "later", {{"a", {1.5, nullptr, true}}, {"b", -7}});
    CHECK(decoded(HelloKind::hello, map) == XFER_OK);
    CHECK(decoded(HelloKind::hello, with(map, "need", json::array({"later"}))) == XFER_EVERSION);
    CHECK(decoded(HelloKind::hello, with(map, "need", json::array({"id", "later"}))) ==
          XFER_EVERSION);
    CHECK(decoded(HelloKind::hello, with(map, "need", json::array({"absent"}))) == XFER_EVERSION);
    CHECK(decoded(HelloKind::hello, with(map, "need", json::array())) == XFER_OK);
    // Every key that any message carries is known.
    for (HelloKind kind : kKinds) {
        json known = json::array({"need"});
        const json sent = map_of(kind);
        for (const auto &entry : sent.items()) {
            known.push_back(entry.key());
        }
        CHECK(decoded(kind, with(sent, "need", known)) == XFER_OK);
    }
    CHECK(decoded(HelloKind::hello, with(map, "need", "later")) == XFER_EPROTO);
    CHECK(decoded(HelloKind::hello, with(map, "need", json::array({7}))) == XFER_EPROTO);
    CHECK(decoded(HelloKind::hello, with(map, "need", json(kMaxNeeded, "id"))) == XFER_OK);
    CHECK(decoded(HelloKind::hello, with(map, "need", json(kMaxNeeded + 1, "id"))) == XFER_EPROTO);
    // A later version may lack what this one demands; that it is later is the better answer.
    CHECK(decoded(HelloKind::hello, with(json::object(), "need", json::array({"later"}))) ==
          XFER_EVERSION);
}

TEST_CASE("nesting at and past its bound, and past any stack") {
    const auto nested = [](size_t depth) {
        json inner = 1;
        for (size_t level = 1; level < depth; level++)
            inner = json::array({inner});
        return decoded(HelloKind::hello, with(map_of(HelloKind::hello), "later", inner));
    };
    CHECK(nested(kMaxNesting) == XFER_OK);
    CHECK(nested(kMaxNesting + 1) == XFER_EPROTO);
    // Lists of one, maps of one, text and bytes of indefinite length, tags: each byte a level.
    for (uint8_t byte : {0x81, 0xa1, 0x9f, 0xbf, 0x7f, 0x5f, 0xc0, 0xd8}) {
        Message body = {0xa1, 0x61, 'x'};
        body.resize(8000, byte);
        CHECK(decoded(around(HelloKind::hello, body)) == XFER_EPROTO);
        CHECK(decoded(around(HelloKind::hello, Message(8000, byte))) == XFER_EPROTO);
    }
}

TEST_CASE("CBOR that is not plain is refused") {
    json map = map_of(HelloKind::hello);
    map.erase("seq");
    const Message plain = json::to_cbor(map);
    // The map with one more entry, of these bytes.
    const auto more = [&](const Message &entry) {
        Message body = plain;
        body[0]++;
        body.insert(body.end(), entry.begin(), entry.end());
        return decoded(around(HelloKind::hello, body));
    };
    CHECK(more({0x63, 's', 'e', 'q', 0x01}) == XFER_OK);
    CHECK(more({0x63, 's', 'e', 'q', 0x18, 0x01}) == XFER_OK);            // longer than needed
    CHECK(more({0x63, 's', 'e', 'q', 0x1c}) == XFER_EPROTO);              // reserved
    CHECK(more({0x63, 's', 'e', 'q', 0xc1, 0x01}) == XFER_EPROTO);        // tagged
    CHECK(more({0x63, 's', 'e', 'q', 0xf9, 0x3c, 0x00}) == XFER_EPROTO);  // 1.0
    CHECK(more({0x7f, 0x63, 's', 'e', 'q', 0xff, 0x01}) == XFER_EPROTO);  // indefinite key
    CHECK(more({0x63, 's', 'e', 'q'}) == XFER_EPROTO);
    CHECK(more({0x01, 0x01}) == XFER_EPROTO);                 // a number as key
    CHECK(more({0x43, 's', 'e', 'q', 0x01}) == XFER_EPROTO);  // bytes as key

    Message twice = json::to_cbor(map_of(HelloKind::hello));
    twice[0]++;
    twice.insert(twice.end(), {0x63, 's', 'e', 'q', 0x01});
    CHECK(decoded(around(HelloKind::hello, twice)) == XFER_EPROTO);

    // Counts that no memory holds.
    for (uint8_t major : {0x40, 0x60, 0x80, 0xa0}) {
        for (uint8_t top : {0x00, 0x0f, 0x7f, 0x80, 0xff}) {
            const Message body = {
                static_cast<uint8_t>(major | 27), top, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
            CHECK(decoded(around(HelloKind::hello, body)) == XFER_EPROTO);
            Message entry = {0x61, 'x'};
            entry.insert(entry.end(), body.begin(), body.end());
            CHECK(more(entry) == XFER_EPROTO);
        }
    }
    for (const json &other : {json(1), json("x"), json::array(), json(nullptr), bytes(20)}) {
        CHECK(decoded(HelloKind::hello, other) == XFER_EPROTO);
    }
}

TEST_CASE("100,000 mutations decode or fail, and what decodes is within bounds") {
    std::mt19937_64 random(20240601);
    std::vector<Message> seeds;
    for (HelloKind kind : kKinds)
        seeds.push_back(whole(full(kind)));
    size_t accepted = 0;
    for (int round = 0; round < 100000; round++) {
        Message message = seeds[random() % seeds.size()];
        for (auto changes = 1 + random() % 3; changes > 0; changes--) {
            message[random() % message.size()] = static_cast<uint8_t>(random());
        }
        if (random() % 8 == 0) message.resize(random() % message.size());
        if (message.size() > kHelloHeader && random() % 2 == 0) {
            store<uint32_t>(&message[8], static_cast<uint32_t>(message.size() - kHelloHeader));
        }
        Result<Hello> hello = decode_hello(message);
        if (!hello) {
            const Status status = hello.error().status;
            REQUIRE((status == XFER_EPROTO || status == XFER_EVERSION || status == XFER_ETOOBIG));
            continue;
        }
        accepted++;
        REQUIRE(hello->terms.blob.size() <= kMaxBlob);
        REQUIRE(hello->terms.listens.size() <= kMaxListenUris);
        REQUIRE(decoded(whole(*hello)) == XFER_OK);
    }
    CHECK(accepted > 1000);   // changes of values
    CHECK(accepted < 90000);  // changes of structure
}
