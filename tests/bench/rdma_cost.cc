// SPDX-License-Identifier: Apache-2.0
// What a path of an adapter costs the processor: nanoseconds from post() to on_done(), over a table
// of verbs that does nothing but queue completions, and beside it the bare loop over that table.
// Paths are opened on fake adapters; then their post_send and poll_cq are replaced.
//
//     rdma_cost [SECONDS]          of each row
//     rdma_cost SECONDS ROW        that row alone, as for perf
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fake_verbs.h"
#include "forwarding_loop.h"
#include "transport/rdma/fabric.h"
#include "wire/proof.h"

using namespace xfer;
using namespace xfer::rdma;

namespace {

constexpr uint64_t kRegion = 7, kLocal = 1;
constexpr uint64_t kMemory = uint64_t{96} << 20;

// Of this thread's processor: others may run beside it.
double now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void require(bool condition, const char *what) {
    if (condition) return;
    std::fprintf(stderr, "rdma_cost: %s\n", what);
    std::exit(1);
}

// ---- the cheapest adapter: what is posted has been done

struct Counts {
    uint64_t doorbells = 0, requests = 0, signaled = 0;
};
Counts counts;
uint64_t completed[256];  // wr_ids, a ring
uint8_t put_at = 0, taken_at = 0;
ibv_context_ops fake_ops;

int post_send(ibv_qp *, ibv_send_wr *request, ibv_send_wr **) {
    ++counts.doorbells;
    for (; request; request = request->next) {
        ++counts.requests;
        if (!(request->send_flags & IBV_SEND_SIGNALED)) continue;
        ++counts.signaled;
        completed[put_at++] = request->wr_id;
    }
    return 0;
}

int poll_cq(ibv_cq *, int room, ibv_wc *out) {
    int count = 0;
    while (count < room && taken_at != put_at) {
        out[count].wr_id = completed[taken_at++];
        out[count].status = IBV_WC_SUCCESS;
        ++count;
    }
    return count;
}

void make_cheap(ibv_context *context, bool on) {
    if (on) fake_ops = context->ops;
    context->ops.post_send = on ? post_send : fake_ops.post_send;
    context->ops.poll_cq = on ? poll_cq : fake_ops.poll_cq;
}

// ---- a loop without the kernel: while it is bare, pollers and tasks alone

class BareLoop final : public ForwardingLoop {
public:
    using ForwardingLoop::ForwardingLoop;
    void turn() {
        for (Poller *poller : pollers_)
            poller->poll();
        while (Task *task = tasks_.pop_front())
            task->run();
    }
    bool bare = false;

    void defer(Task &task) override {
        if (!bare) return inner_.defer(task);
        if (!task.linked()) tasks_.push_back(task);
    }
    void look_at(Poller &poller) override {
        if (std::find(pollers_.begin(), pollers_.end(), &poller) == pollers_.end())
            pollers_.push_back(&poller);
        inner_.look_at(poller);
    }

private:
    std::vector<Poller *> pollers_;
    List<Task> tasks_;
};

// ---- what core is to a path

struct End final : AttachedPathSink, PathSink, OneSidedSink, FabricSink {
    End(const Verbs &verbs, const char *device, BareLoop &loop) {
        auto devices = open_devices(verbs, *parse_device_filter(device));
        require(devices && devices->open.size() == 1, "no device");
        context = devices->open[0]->ports().front().context;
        fabric = std::make_unique<AdapterFabric>(verbs, std::move(*devices), QueuePairOptions{},
                                                 loop, log);
        fabric->set_sink(*this);
    }
    void send_signal(ConstBytes message) override {
        to_peer.emplace_back(message.begin(), message.end());
    }
    void on_ready() override {
        ready = true;
        path->start(*this, *this, 64);
    }
    void on_ended(const Failure &) override { ended = true; }
    void on_done(Op &, Status status) override {
        require(status == XFER_OK || closing, "an operation failed");
        ++done;
    }
    void on_declined(Op &) override { require(false, "an operation was declined"); }
    void on_dropped(RegionId) override {}
    Status on_access(Dir, const Access &, std::span<const WirePiece>, std::vector<iovec> &,
                     StagedRequest *&) override {
        return XFER_EACCESS;
    }
    void on_served(Dir, uint64_t, NotificationId) override {}
    void on_quiesced(Target) override {}
    void on_unmapped(Target) override {}
    void on_notification_begun(NotificationId, uint64_t) override {}
    void on_down(const Failure &) override {}
    void on_released(RegionId) override {}

    Log log;
    ibv_context *context = nullptr;
    std::unique_ptr<AdapterFabric> fabric;
    std::unique_ptr<AttachedPath> path;
    std::vector<std::vector<uint8_t>> to_peer;
    bool ready = false, ended = false, closing = false;
    uint64_t done = 0;
};

struct Row {
    const char *name;
    uint64_t piece;   // bytes
    uint64_t pieces;  // of a request of the user's
    uint64_t window;  // chunks between two flushes, at most
};

class Bench {
public:
    Bench() : memory_(kMemory), remote_(kMemory) {
        fabric_.add(), fabric_.add();
        EngineLoop::Inside inside(*own_);
        near_ = std::make_unique<End>(FakeFabric::verbs(), "fake0", loop_);
        far_ = std::make_unique<End>(FakeFabric::verbs(), "fake1", loop_);
        add(*near_, kLocal, memory_);
        add(*far_, kRegion, remote_);
        open(*near_, true);
        open(*far_, false);
    }
    ~Bench() {
        near_->closing = true;
        for (End *end : {near_.get(), far_.get()}) {
            EngineLoop::Inside inside(*own_);
            end->path->close({XFER_ECLOSED, XFER_ORIGIN_NONE, 0, "the end"});
        }
        until([&] { return near_->ended && far_->ended; });
        EngineLoop::Inside inside(*own_);
        near_->path.reset(), far_->path.reset(), import_.reset();
        near_->fabric.reset(), far_->fabric.reset();
    }
    void begin() {
        until([&] { return near_->ready && far_->ready; });
        const ExportedMemory theirs = exported(remote_), ours = exported(memory_);
        until([&] {  // both are registered
            EngineLoop::Inside inside(*own_);
            auto key = far_->path->export_region({kRegion}, theirs);
            if (key && !import_) import_ = near_->path->import({key->begin(), key->size()});
            return import_ && near_->path->export_region({kLocal}, ours);
        });
        import_->region = {kRegion};
    }

    struct Figure {
        double ns_per_chunk = 0;
        uint64_t chunks = 0;  // of one request of the user's
        Counts posted;        // and chunks in all
        uint64_t total = 0;
    };
    Figure run(const Row &row, double seconds);
    double bare(double seconds) const;

private:
    static ExportedMemory exported(std::vector<uint8_t> &bytes) {
        ExportedMemory memory;
        memory.base = bytes.data(), memory.length = bytes.size();
        memory.access = XFER_READ | XFER_WRITE;
        return memory;
    }
    static void add(End &end, uint64_t number, std::vector<uint8_t> &bytes) {
        end.fabric->add_region({number}, exported(bytes));
    }
    static void open(End &end, bool first) {
        auto made = end.fabric->open({.first = first}, end);
        require(static_cast<bool>(made), "no path");
        end.path = std::move(*made);
    }
    void until(const std::function<bool()> &condition) {
        while (!condition()) {
            own_->turn(kNsPerMs);
            fabric_.run();
            EngineLoop::Inside inside(*own_);
            deliver(*near_, *far_);
            deliver(*far_, *near_);
        }
    }
    static void deliver(End &from, End &to) {
        auto waiting = std::exchange(from.to_peer, {});
        for (const auto &bytes : waiting)
            to.path->on_signal({bytes.data(), bytes.size()});
    }
    std::vector<std::unique_ptr<Op>> cut(const Row &row, PieceList &list) const;

    std::unique_ptr<OwnLoop> own_ = [] {
        auto made = OwnLoop::open();
        require(made && crypto_ready(), "no loop");
        return std::move(*made);
    }();
    BareLoop loop_{*own_};
    FakeFabric fabric_;
    std::vector<uint8_t> memory_, remote_;
    std::unique_ptr<End> near_, far_;
    std::unique_ptr<Import> import_;
};

// As core cuts them.
std::vector<std::unique_ptr<Op>> Bench::cut(const Row &row, PieceList &list) const {
    const auto base = reinterpret_cast<uint64_t>(memory_.data());
    const uint64_t apart = row.pieces > 1 ? 2 * row.piece : row.piece;
    list.add_strided(Dir::put, 0, {base, 0, row.piece}, row.piece, apart, row.pieces);
    std::vector<std::unique_ptr<Op>> chunks;
    std::vector<Piece> drawn;
    for (Cursor at; !list.at_end(at);) {
        auto chunk = std::make_unique<Op>();
        drawn.clear();
        chunk->dir = Dir::put;
        chunk->list = &list;
        chunk->begin = at;
        chunk->bytes = static_cast<uint32_t>(list.draw(at, kMaxChunk, kMaxPieces, drawn));
        chunk->pieces = static_cast<uint32_t>(drawn.size());
        chunk->end = at;
        chunk->import = import_.get();
        chunk->remote.region = kRegion;
        chunks.push_back(std::move(chunk));
    }
    return chunks;
}

Bench::Figure Bench::run(const Row &row, double seconds) {
    PieceList list;
    auto chunks = cut(row, list);
    Figure figure;
    figure.chunks = chunks.size();
    for (size_t i = 0; chunks.size() < row.window; ++i) {  // as many operations of the same bytes
        auto copy = std::make_unique<Op>();
        const Op &of = *chunks[i];
        copy->dir = of.dir, copy->list = of.list, copy->begin = of.begin, copy->end = of.end;
        copy->bytes = of.bytes, copy->pieces = of.pieces, copy->import = of.import;
        copy->remote = of.remote;
        chunks.push_back(std::move(copy));
    }
    EngineLoop::Inside inside(*own_);
    make_cheap(near_->context, true);
    loop_.bare = true;
    counts = {};
    near_->done = 0;
    uint64_t posted = 0;
    size_t at = 0;
    const double begin = now();
    double passed = 0;
    do {
        for (int round = 0; round < 64; ++round) {
            while (posted - near_->done < row.window) {
                if (!near_->path->post(*chunks[at])) break;
                ++posted;
                at = at + 1 == chunks.size() ? 0 : at + 1;
            }
            near_->path->flush();
            loop_.turn();
        }
        passed = now() - begin;
    } while (passed < seconds);
    while (near_->done < posted)
        loop_.turn();
    passed = now() - begin;
    loop_.bare = false;
    make_cheap(near_->context, false);
    figure.total = posted;
    figure.ns_per_chunk = passed * 1e9 / static_cast<double>(posted);
    figure.posted = counts;
    return figure;
}

// A signaled post, and polls until it is done.
double Bench::bare(double seconds) const {
    ibv_context *const context = near_->context;
    make_cheap(context, true);
    ibv_qp pair{};
    ibv_cq queue{};
    pair.context = queue.context = context;
    ibv_send_wr request{};
    ibv_sge element{};
    uint64_t count = 0;
    const double begin = now();
    double passed = 0;
    do {
        for (int i = 0; i < 1'000; ++i, ++count) {
            element.addr = count, element.length = 8;
            request = {};
            request.wr_id = count;
            request.sg_list = &element, request.num_sge = 1;
            request.opcode = IBV_WR_RDMA_WRITE;
            request.send_flags = IBV_SEND_SIGNALED;
            request.wr.rdma.remote_addr = count;
            ibv_send_wr *refused = nullptr;
            require(ibv_post_send(&pair, &request, &refused) == 0, "the post");
            ibv_wc done;
            while (ibv_poll_cq(&queue, 1, &done) == 0) {}
            require(done.status == IBV_WC_SUCCESS, "the completion");
        }
        passed = now() - begin;
    } while (passed < seconds);
    make_cheap(context, false);
    return passed * 1e9 / static_cast<double>(count);
}

constexpr Row kRows[] = {
    {"8 B, 1 at a time", 8, 1, 1},        {"8 B, 64 at a time", 8, 1, 64},
    {"4 KiB, 64 at a time", 4096, 1, 64}, {"64 KiB, 64 at a time", 65'536, 1, 64},
    {"10,000 x 4 KiB", 4096, 10'000, 64},
};

}  // namespace

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
    const char *only = argc > 2 ? argv[2] : "";
    Bench bench;
    bench.begin();
    std::printf("%-22s %10s %10s %8s %10s %10s %9s\n", "put", "ns/chunk", "ns/request", "bare", "x",
                "req/bell", "signaled");
    for (const Row &row : kRows) {
        if (!std::strstr(row.name, only)) continue;
        const double limit = *only ? 1 : bench.bare(seconds / 4);
        const Bench::Figure figure = bench.run(row, seconds);
        const auto requests = static_cast<double>(figure.posted.requests);
        const double ns_per_request =
            figure.ns_per_chunk * static_cast<double>(figure.total) / requests;
        std::printf("%-22s %10.1f %10.1f %8.1f %10.1f %10.1f %8.1f%%\n", row.name,
                    figure.ns_per_chunk, ns_per_request, limit, ns_per_request / limit,
                    requests / static_cast<double>(figure.posted.doorbells),
                    100 * static_cast<double>(figure.posted.signaled) / requests);
    }
}
