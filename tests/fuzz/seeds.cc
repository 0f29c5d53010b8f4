// SPDX-License-Identifier: Apache-2.0
// Writes the corpus, a few inputs of each kind to start from, or checks that it still is what this
// writes. Usage: fuzz_seeds [--check] CORPUS
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#ifdef WITH_RDMA
#include "transport/rdma/export_key.h"
#include "transport/rdma/packet_signal.h"
#include "transport/rdma/signal.h"
#endif
#include "util/uri.h"
#include "wire/frame.h"
#include "wire/hello.h"
#include "wire/ref.h"
#include "xfer/rdma.h"

using namespace xfer;

namespace {

using Input = std::vector<uint8_t>;
using Corpus = std::map<std::string, Input>;  // by path

void add_hellos(Corpus &corpus) {
    Hello hello;
    hello.identity.id.fill(0x11);
    hello.identity.incarnation = 0x2222222222222222;
    hello.identity.nonce.fill(0x33);
    hello.identity.sequence = 300;
    hello.identity.keyed = true;
    hello.statement = {1, 70000, 3};
    hello.terms = {64, 15000, {1, 2, 3}, {"tcp://10.0.0.1:7000", "tcp://[::1]:7001"}, {"tcp"}};
    hello.questions = {{"weights", true}};
    hello.token.fill(0x44);
    hello.lane = 1;
    hello.status = XFER_EOVERLOAD;
    hello.retry_ms = 250;
    const char *names[] = {"hello", "reply", "proof", "ready", "refuse", "lane", "lane_ready"};
    uint8_t kind = 1;
    for (const char *name : names) {
        hello.kind = static_cast<HelloKind>(kind++);
        Input message = encode_hello(hello);
        if (message[7] != 0) append_proof(message, hello.proof);
        corpus[std::string("hello/") + name] = message;
    }
    // An unknown key, and a needed one, in the smallest message.
    for (const char *key : {"\x63new\x82\xf5\xa1\x61x\xf6", "\x64need\x81\x63new"}) {
        Input message = corpus["hello/lane_ready"];
        message[kHelloHeader]++;
        message.insert(message.end(), key, key + std::strlen(key));
        store<uint32_t>(&message[8], static_cast<uint32_t>(message.size() - kHelloHeader));
        corpus[std::string("hello/") + (key[0] == 'c' ? "unknown" : "needed")] = message;
    }
    Input deep = {'X', 'F', 'E', 'R', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa1, 0x61, 'x'};
    deep.resize(100, 0x81);
    store<uint32_t>(&deep[8], static_cast<uint32_t>(deep.size() - kHelloHeader));
    corpus["hello/deep"] = deep;
}

void add_frames(Corpus &corpus) {
    const struct {
        const char *name;
        Frame frame;
    } table[] = {
        {"put", {FrameType::put, 1, 2, access_length(2) + 4096, 9, 5, 1, 0}},
        {"get", {FrameType::get, 0, 512, access_length(512), 10, 5, 1, 0}},
        {"ack", {FrameType::ack, 0, 0, 0, 9, 0, 0, 0}},
        {"error", {FrameType::error, 0, 0, 0, 10, 0, 0, XFER_EACCESS}},
        {"data", {FrameType::data, 0, 0, kMaxChunk, 10, 0, 0, 0}},
        {"lookup", {FrameType::lookup, kLookupWait, 0, 7, 1, 0, 0, 0}},
        {"found", {FrameType::found, 0, 0, 96 + 20, 1, 0, 0, 0}},
        {"gone", {FrameType::gone, 0, 0, 96, 0, 5, 1, 0}},
        {"noted_put",
         {FrameType::put, kNotified, 2, access_length(2, kNotified) + 4096, 9, 5, 1, 0}},
        {"checked_put", {FrameType::put, kChecked, 1, access_length(1, kChecked) + 5, 9, 5, 1, 0}},
        {"checked_data", {FrameType::data, kChecked, 0, kChecksumBytes + 5, 9, 0, 0, 0}},
        {"notify", {FrameType::notify, 0, 0, 0, 7, 0x6b6579, 0, 0}},
        {"told", {FrameType::notify, 0, 0, 1000, 7, 0x6b6579, 0, 0}},
        {"counted", {FrameType::notify, kCounted, 0, 5 + kCountBytes, 7, 0x6b6579, 0, 0}},
        {"failed", {FrameType::notify, 0, 0, 0, 7, 0x6b6579, 0, XFER_ECANCELED}},
        {"noted", {FrameType::noted, 0, 0, 0, 7, 64, 0, 0}},
        {"drain", {FrameType::drain, 0, 0, 0, 1, 0, 0, 0}},
        {"message", {FrameType::message, kSync, 0, 5, 1, 0x746167, 0, 0}},
        {"checked_message",
         {FrameType::message, kChecked, 0, kChecksumBytes + 5, 1, 0x746167, 0, 0}},
        {"envelope", {FrameType::message, kEnvelope, 0, 8, 2, 0x746167, 0, 0}},
        {"kept", {FrameType::queued, kHeld, 0, 0, 1, 0, 0, 0}},
        {"taken", {FrameType::completed, 0, 0, 0, 1, 0, 0, 0}},
        {"thrown_away", {FrameType::completed, 0, 0, 0, 2, 0, 0, XFER_ECANCELED}},
        {"cancel", {FrameType::cancel, 0, 0, 0, 2, 0, 0, 0}},
        {"request_export", {FrameType::request_export, 0, 0, 8, 255, 7, 1, 0}},
        {"exported", {FrameType::exported, 0, 0, 56, 255, 7, 0, 0}},
        {"not_exported", {FrameType::exported, 0, 0, 0, 255, 7, 0, XFER_EAGAIN}},
        {"path_signal", {FrameType::path_signal, 0, 0, 40, 1, 256, XFER_TRANSPORT_RDMA, 0}},
        {"path_closed", {FrameType::path_signal, 0, 0, 0, 1, 256, 0, XFER_EPEERLOST}},
        {"lane_signal",
         {FrameType::path_signal, 0, 0, 40, 1, kAttachedLane, XFER_TRANSPORT_RDMA, 0}},
        {"lane_over", {FrameType::path_signal, 0, 0, 0, 1, kAttachedLane, 0, XFER_EPEERLOST}},
        {"control_switch", {FrameType::control_switch, 0, 0, 0, 0, 0, 0, 0}},
        {"withdrawn", {FrameType::withdrawn, 0, 0, 0, 0, 7, 0, 0}},
        {"withdraw", {FrameType::withdraw, 0, 0, 0, 255, 7, 0, 0}},
        {"add", {FrameType::atomic, 1, 0, kAtomicBody, 11, 5, 1, 0}},
        {"cas", {FrameType::atomic, 2, 0, kAtomicBody, 12, 5, 1, 0}},
        {"bye", {FrameType::bye, 0, 0, 0, 0, 0, 0, XFER_ECLOSED}},
    };
    for (const auto &row : table) {
        Input header(Frame::kSize);
        encode(row.frame, header.data());
        corpus[std::string("frame/") + row.name] = header;
    }
}

void add_refs(Corpus &corpus) {
    RemoteRegion region;
    region.id.fill(0x11);
    region.incarnation = 0x2222222222222222;
    region.region = 3;
    region.key = 0x4444444444444444;
    region.offset = 4096;
    region.length = 1 << 20;
    region.generation = 1;
    region.access = XFER_READ | XFER_WRITE;
    region.kind = XFER_MEM_HOST;
    xfer_ref_t ref = encode_ref(region);
    corpus["ref/good"].assign(std::begin(ref.bytes), std::end(ref.bytes));
    region.access |= XFER_ATOMIC;
    const xfer_ref_t atomic = encode_ref(region);
    corpus["ref/atomic"].assign(std::begin(atomic.bytes), std::end(atomic.bytes));
    ref.bytes[4] = 3;
    corpus["ref/later"].assign(std::begin(ref.bytes), std::end(ref.bytes));
    corpus["ref/zero"].resize(sizeof ref);
}

void add_uris(Corpus &corpus) {
    const std::pair<const char *, const char *> table[] = {
        {"v4", "tcp://127.0.0.1:7000"},
        {"range", "tcp://node-7.example.org:15000-17000"},
        {"v6", "tcp://[2001:db8::1]:0"},
        {"zone", "tcp://[fe80::1%eth0]:7000"},
        {"unix", "unix:///run/engine.sock"},
        {"other", "udp://127.0.0.1:7000"},
        {"no_port", "tcp://127.0.0.1"},
        {"upside_down", "tcp://host:2-1"},
        {"list", "quic://a:1,tcp://b:1,,unix:///c"},
    };
    for (const auto &[name, text] : table) {
        corpus[std::string("uri/") + name].assign(text, text + std::strlen(text));
    }
}

// As options_fuzz.cc reads them: which struct, what its pointers point at, the struct, and text.
template <typename T>
Input given(uint8_t struct_number, uint8_t pointers, T options, uint32_t size, std::string text) {
    options.size = size;
    Input input = {struct_number, pointers};
    const auto *bytes = reinterpret_cast<const uint8_t *>(&options);
    input.insert(input.end(), bytes, bytes + std::min<size_t>(size, sizeof options));
    input.resize(2 + size);
    input.insert(input.end(), text.begin(), text.end());
    return input;
}

template <typename T>
void add_sizes(Corpus &corpus, const std::string &name, uint8_t struct_number, uint8_t pointers,
               const T &options, const std::string &text) {
    constexpr uint32_t size = sizeof options;
    const std::string path = "options/" + name;
    corpus[path] = given(struct_number, pointers, options, size, text);
    corpus[path + "_older"] = given(struct_number, pointers, options, size / 8 * 4, text);
    corpus[path + "_newer"] = given(struct_number, pointers, options, size + 16, text);
}

void add_options(Corpus &corpus) {
    xfer_engine_options_t engine{};
    engine.dispatch = XFER_DISPATCH_POLL;
    engine.io_threads = XFER_NONE;
    engine.blob_length = 8;
    engine.key_length = 32;
    engine.lanes = 2;
    add_sizes(corpus, "engine", 0, 0b011110, engine, "loopback,tcp");
    add_sizes(corpus, "engine_advertise", 0, 0b101110, engine, "tcp://10.0.0.1:7000,tcp://[::1]:1");
    xfer_region_options_t region{};
    region.access = XFER_READ | XFER_WRITE;
    region.kind = XFER_MEM_HOST;
    region.blob_length = 4;
    add_sizes(corpus, "region", 1, 0b0011, region, "weights");
    add_sizes(corpus, "ep", 2, 0b011, xfer_ep_options_t{}, "tcp://127.0.0.1:7000");
    xfer_strided_t strided{};
    strided.local = 4096;
    strided.local_stride = strided.remote_stride = 256;
    strided.length = 64;
    strided.count = 100;
    add_sizes(corpus, "strided", 3, 0b011, strided, "");
    xfer_pages_t pages{};
    pages.base_size = sizeof(xfer_page_base_t);
    pages.index_size = 8;
    pages.length = 512;
    pages.count = 8;
    pages.base_count = 2;
    add_sizes(corpus, "pages", 4, 0b0110111, pages, "");
    add_sizes(corpus, "batch", 5, 0, xfer_batch_options_t{}, "");
    xfer_listen_options_t listen{};
    listen.user = 7;
    add_sizes(corpus, "listen", 6, 0b11, listen, "tcp://10.0.0.1:{port},tcp://[::1]:1");
    xfer_counter_options_t counter{};
    counter.timeout_ms = 1;
    add_sizes(corpus, "counter", 7, 0b11, counter, "");
    engine.flags = XFER_ENGINE_CHECKSUM;
    add_sizes(corpus, "named_number", 8, 0, engine, "lanes\nnone");
    add_sizes(corpus, "named_choice", 8, 0, engine, "dispatch\npoll");
    add_sizes(corpus, "named_flag", 8, 0, engine, "checksum\non");
    add_sizes(corpus, "named_hex", 8, 0, engine, "id\n00112233445566778899aAbBcCdDeEfF");
    add_sizes(corpus, "named_text", 8, 0, engine, "advertise\ntcp://10.0.0.1:7000");
    xfer_rdma_options_t rdma{};
    rdma.queue_depth = 64;
    rdma.ack_timeout = 18;
    rdma.retries = 3;
    rdma.traffic_class = 104;
    rdma.service_level = 3;
    add_sizes(corpus, "rdma", 9, 1, rdma, "mlx5_0:1:3,mlx5_1");
    add_sizes(corpus, "rdma_except", 9, 1, rdma, "^mlx5_2");
}

#ifdef WITH_RDMA
void add_rdma(Corpus &corpus) {
    rdma::Signal signal;
    signal.queue_pair.reads_in = 16;
    signal.queue_pair.qpn = 0x12345;
    signal.queue_pair.psn = 0xabcdef;
    signal.queue_pair.gid.raw[10] = signal.queue_pair.gid.raw[11] = 0xff;
    signal.queue_pair.gid.raw[15] = 7;
    signal.begun_address = 0x7f0011223000;
    signal.begun_key = 0x1234;
    const char *names[] = {"offer", "answer", "done"};
    uint8_t kind = 1;
    for (const char *name : names) {
        signal.kind = static_cast<rdma::Signal::Kind>(kind++);
        const auto bytes = encode(signal);
        corpus[std::string("rdma/") + name].assign(bytes.begin(), bytes.end());
    }
    for (const size_t parts : {size_t{1}, size_t{3}, rdma::kMaxParts}) {
        rdma::RegionKeys region;
        region.base = 0x7f0011225000;
        region.length = parts * 4096 - 5;
        region.part_bytes = 4096;
        region.access = XFER_READ | XFER_WRITE;
        for (size_t i = 0; i < parts; ++i)
            region.keys.push_back(0x100 + static_cast<uint32_t>(i));
        const auto bytes = encode(region);
        corpus["rdma/key_" + std::to_string(parts)].assign(bytes.begin(), bytes.end());
    }
}

void add_packet_signals(Corpus &corpus) {
    const std::vector<uint8_t> bytes(100, 0x55);
    rdma::PacketSignal signal;
    signal.queue_pair.qpn = 0x12345;
    signal.queue_pair.psn = 0xabcdef;
    signal.queue_pair.gid.raw[10] = signal.queue_pair.gid.raw[11] = 0xff;
    signal.number = 0x0102030405060708;
    uint8_t kind = 1;
    for (const char *name : {"offer", "answer", "ready", "lost", "part", "word", "end"}) {
        signal.kind = static_cast<rdma::PacketSignal::Kind>(kind++);
        const bool is_part = signal.kind == rdma::PacketSignal::Kind::part;
        signal.generation = signal.kind < rdma::PacketSignal::Kind::part ? 3 : 0;
        signal.offset = is_part ? 1000 : 0;
        signal.length = is_part ? 1100 : 0;
        signal.bytes = is_part ? ConstBytes(bytes) : ConstBytes();
        const auto said = encode(signal);
        corpus[std::string("rdma/packet_") + name].assign(said.begin(), said.end());
    }
}
#endif

}  // namespace

int main(int argc, char **argv) {
    const bool check = argc == 3 && std::strcmp(argv[1], "--check") == 0;
    if (argc != (check ? 3 : 2)) return 2;
    const std::filesystem::path root = argv[argc - 1];
    Corpus corpus;
    add_hellos(corpus);
    add_frames(corpus);
    add_refs(corpus);
    add_uris(corpus);
    add_options(corpus);
#ifdef WITH_RDMA
    add_rdma(corpus);
    add_packet_signals(corpus);
#endif
    int stale = 0;
    for (const auto &[name, input] : corpus) {
        if (!check) {
            std::filesystem::create_directories((root / name).parent_path());
            std::ofstream(root / name, std::ios::binary)
                .write(reinterpret_cast<const char *>(input.data()),
                       static_cast<std::streamsize>(input.size()));
            continue;
        }
        std::ifstream file(root / name, std::ios::binary);
        const Input there{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        if (there == input) continue;
        std::printf("%s is not what this version writes\n", name.c_str());
        stale++;
    }
    return stale > 0;
}
