// SPDX-License-Identifier: Apache-2.0
// A network between simulated engines, as a transport below the unchanged engine. Channels carry
// their bytes part by part over virtual time, each direction in its order; dials are refused, late
// or doubled, channels are cut, slow, silent for a time or for ever, and engines die, when the
// script or the dice say so.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim_loop.h"
#include "transport/transport.h"

namespace xfer {

class SimAttachedPath;
class SimChannel;
class SimCopyPath;
class SimTransport;
enum class CopyStep : uint8_t;
enum class ChannelStep : uint8_t { post, answer };
enum class Break : uint8_t {
    none,
    wire,    // what goes by it arrives no more; the ends notice later
    refuse,  // post: as well, and the op is not taken
};
enum class CopyFate : uint8_t;
enum class AttachStep : uint8_t;
enum class AttachFate : uint8_t;

// Told of every byte that a channel takes from, or puts into, the memory of users.
class SimObserver {
public:
    virtual ~SimObserver() = default;
    // The operation that this local memory was lent to, 0: not known.
    virtual uint64_t operation_at(const void *local) = 0;
    // The first byte of a chunk, or the request of one, leaves for `to` (0: a channel of
    // which nobody has the other end), with a checksum or not.
    virtual void leaves(uint64_t operation, const void *local, uint32_t to, bool checked) = 0;
    // A byte of it changes on its way, which its checksum tells.
    virtual void spoiled(uint64_t operation) = 0;
    // Memory is read to be sent, by a put or for a peer's get.
    virtual void reads(const void *at) = 0;
    // Local memory is written by a get.
    virtual void writes(const void *at) = 0;
    // Bytes of a put land in the memory of `owner`, by its connection of that number with `from`.
    virtual void lands(uint64_t operation, uint32_t owner, uint32_t from, uint64_t generation,
                       const uint8_t *at, size_t bytes) = 0;
    // An atomic is about to be done there, in the same way.
    virtual void changes(uint64_t operation, uint32_t owner, uint32_t from, uint64_t generation,
                         const void *word) = 0;
    // A put that belongs to a notification was let in at `owner`, or the word of its end has come:
    // from now on it is owed to the application there.
    virtual void announced(uint64_t key, uint32_t owner) = 0;
    virtual void note(const std::string &line) = 0;
};

// What bytes of one engine meet on their way to another.
struct SimWay {
    uint64_t silent_until = 0;      // nothing arrives before; kNever: what is sent is lost, and
                                    // channels that lost something never recover
    uint64_t bytes_per_second = 0;  // 0: as the net
    bool refused = false;           // dials
};

// One process of that world, whatever number of loops it has.
struct SimProcess {
    explicit SimProcess(uint32_t given) : number(given) {}
    const uint32_t number;
    bool dead = false;
    // Regions whose keys work, by the adapter (SimFabric) and their number.
    std::set<std::pair<const void *, uint64_t>> registered;
    bool is_registered(uint64_t region) const {
        return std::any_of(registered.begin(), registered.end(),
                           [=](const auto &at) { return at.second == region; });
    }
    // When connections went live, by the number of the other process.
    std::map<uint32_t, std::vector<uint64_t>> generations;
};

// Where the first of its bytes are: not where they are copied on their way from or to a device.
inline const void *users_memory(const Op &op) {
    std::vector<Piece> pieces;
    Cursor at = op.begin;
    op.list->draw(at, op.max_bytes, op.max_pieces, pieces);
    return reinterpret_cast<const void *>(pieces[0].local);
}

class SimNet {
public:
    explicit SimNet(SimWorld &w);
    ~SimNet();

    // What may go wrong, from now on.
    uint64_t delay_min = 20'000, delay_max = 200'000;  // ns, one way
    uint64_t cut_one_in = 0;       // a channel breaks instead of carrying a part; 0: never
    uint64_t cut_lane_one_in = 0;  // the same, of a data lane alone
    bool narrow = false;           // channels take chunks of different lengths, some short ones
    uint64_t refuse_one_in = 0;    // a dial fails; 0: never
    uint64_t late_one_in = 0;      // all that a dialed channel carries takes up to late_max longer
    uint64_t late_max = 0;         // ns
    uint64_t spoil_one_in = 0;     // of a part with a checksum a byte changes; 0: never
    uint64_t double_one_in = 0;  // a second channel arrives for one dial, with the same first words
    std::set<std::string> closed;  // URIs at which every dial is refused
    bool neighbours = false;       // engines also meet as if they were on one host
    bool silent = false;           // everything sent is lost, channels stay: a black hole
    uint64_t bytes_per_second = 1'000'000'000;
    uint64_t part_max = 64 * 1024;  // bytes that leave at once
    uint64_t window = 1024 * 1024;  // bytes of one direction that are on their way
    // A channel still uses the local memory of what is canceled, to its end, as a network card does
    // with a request that it has begun; 0: never.
    uint64_t busy_one_in = 0;
    // Operations that a channel takes at most, whatever its peers have agreed on.
    uint64_t takes_ops = UINT64_MAX;
    // Frames that wait on a channel at most; far beyond what a scenario says.
    uint64_t takes_frames = 65'536;
    uint64_t linger_max =
        0;  // ns: what waits on a channel that is closed leaves up to so much later
    std::map<std::pair<uint32_t, uint32_t>, SimWay> ways;  // by number of process, from and to

    // Of one channel: what an op of it may be, and at which of its ops it breaks.
    std::function<void(const SimChannel &, Caps &)> on_caps;
    std::function<Break(SimChannel &, ChannelStep)> on_step;

    // Neighbours copy without each other, by a path that is one-sided: what one op of it may be,
    // and what goes wrong with it, at each of its steps (sim_copy_path.h).
    bool copies = false;
    uint32_t copy_max_bytes = kMaxChunk, copy_max_pieces = kMaxPieces;
    uint64_t copy_ns_max = 50'000;  // until one begins, and then until it ends
    std::function<CopyFate(CopyStep, const SimCopyPath &)> on_copy;

    // Engines have adapters, by which paths stand beside their channels: what goes wrong with their
    // set-up (sim_fabric.h). Their copies are those above.
    bool adapters = false;
    bool windows = true;  // of memory: peers reach grants by them
    // What is got comes into a buffer of the adapter's first: a cancel leaves that alone.
    bool copy_bounces = false;
    // Of each: paths of one connection that it can have; and of every other process, if not 0.
    uint32_t ports = 1, other_ports = 0;
    std::function<AttachFate(AttachStep, const SimAttachedPath &)> on_attach;
    uint64_t detach_ns = 0;  // until one that is closed has ended
    // They make channels, too (sim_attached_channel.h): what goes wrong with their set-up, of the
    // end that began or the other one; all that such a channel sends goes as signals; or does once
    // an end has found that its queue pair brings nothing any more.
    bool adapter_lanes = false, lanes_by_signals = false, lanes_stall = false;
    std::function<AttachFate(AttachStep, bool first)> on_channel;
    // Until a region is registered, when it is first asked for, and until its keys work no more,
    // when it is removed; each the half of the times at once.
    uint64_t register_ns_max = 50'000, release_ns_max = 50'000;
    uint64_t adapter_lacks_one_in = 0;  // a region is added, and memory lacks for it; 0: never

    // Puts in bounce memory, on their way to a device: whose they are.
    struct Bounced {
        uint64_t operation;
        uint32_t owner, from;
        uint64_t generation;
    };
    std::map<const void *, Bounced> bounced;

    void cut_all();    // every channel breaks; the ends notice one by one
    void cut_twins();  // of doubled dials
    void cut(uint32_t a, uint32_t b);
    // Nothing of it is heard any more, nor does it hear anything; `told`: its peers' channels end.
    void kill(SimProcess &process, bool told);
    std::shared_ptr<SimProcess> new_process() {
        return std::make_shared<SimProcess>(++last_process_);
    }
    uint64_t delay() { return delay_min + world.random(delay_max - delay_min + 1); }
    // By dice of its own: who copies nothing has the run that it had before there were copies.
    uint64_t copy_delay() { return copy_dice_() % copy_ns_max; }
    uint64_t adapter_delay(uint64_t most) {
        return adapter_dice_() % 2 ? adapter_dice_() % most : 0;
    }
    bool adapter_lacks() {
        return adapter_lacks_one_in && adapter_dice_() % adapter_lacks_one_in == 0;
    }
    bool chance(uint64_t one_in) { return one_in && world.random(one_in) == 0; }
    const SimWay &way(uint32_t from, uint32_t to) const;
    // A frame has come for `sink`, an end of a channel at `owner`.
    void hears(const Frame &frame, const ChannelSink &sink, uint32_t owner);
    void note(const std::string &line) {
        if (observer) observer->note(line);
    }

    SimWorld &world;
    SimObserver *observer = nullptr;
    std::map<std::string, std::pair<SimTransport *, AcceptSink *>> listeners;
    std::map<uint64_t, SimChannel *> channels;  // by number: iteration must not depend on addresses
    std::map<int, std::unique_ptr<SimChannel>>
        detached;  // on their way between loops, by descriptor
    uint64_t last_channel = 0;
    uint64_t last_due = 0;  // of all that was said, also by channels that are no more
    std::map<uint64_t, SimCopyPath *> copy_paths;  // in the same way
    uint64_t last_copy_path = 0, last_stamp = 0;
    uint64_t dials = 0;
    uint64_t flushes = 0;                  // of paths that take requests
    std::map<std::string, uint64_t> met;   // how often each fault came
    std::map<FrameType, uint64_t> frames;  // that were sent
    // What became of a dial: 0 it is made, 1 it came through, -1 it was refused.
    std::function<void(SimTransport &, const std::string &uri, int how)> on_dial;

private:
    std::mt19937_64 copy_dice_{world.seed()}, adapter_dice_{world.seed() + 1};
    uint32_t last_process_ = 0;
};

class SimTransport final : public Transport {
public:
    SimTransport(SimNet &net, SimLoop &loop) : SimTransport(net, loop, net.new_process()) {}
    SimTransport(SimNet &net, SimLoop &loop, std::shared_ptr<SimProcess> owner)
        : net(net), loop(loop), process(std::move(owner)), number(process->number) {}
    ~SimTransport() override;
    std::string_view name() const override { return "sim"; }
    bool serves(const Uri &uri) const override {
        return uri.scheme == "tcp" || (uri.scheme == "shm" && net.neighbours);
    }
    Scope scope(const Uri &uri) const override {
        return uri.scheme == "shm" ? Scope::host : Scope::network;
    }
    Result<std::unique_ptr<Listener>> listen(const Uri &uri, uint32_t mode,
                                             AcceptSink &sink) override;
    Result<std::unique_ptr<Channel>> connect(const Uri &uri, ChannelSink &sink) override;
    std::unique_ptr<Channel> adopt(DetachedChannel ticket) override;

    SimNet &net;
    SimLoop &loop;
    const std::shared_ptr<SimProcess> process;
    const uint32_t number;     // the process's
    uint32_t source = number;  // the address that its dials come from

private:
    void dialed(SimChannel &end, const std::string &uri);
};

}  // namespace xfer
