// SPDX-License-Identifier: Apache-2.0
// What a stream waits at, as one word: a host function says that the stream has arrived, the stream
// then waits for the bit `kPasses`, and the loop sets that when the batch is over. No stream writes
// it. Pure: who has the word performs what a step orders. Inputs come from a thread of the
// driver's, from who submits and from loops: each step is one exchange of the word (apply()).
//
// A word that nobody looks after any more always passes: a stream never waits but between an
// arrival that was rung and the end that the loop owes for it.
#pragma once

#include <atomic>
#include <cstdint>

namespace xfer {

struct Ticket {
    static constexpr uint32_t kPasses = 2;  // what cuStreamWaitValue32 waits for

    // In the low bits of the word.
    enum Phase : uint32_t {
        arrived = 1,    // the stream waits; the batch is to begin
        waiting = 2,    // for the stream
        running = 5,    // the stream waits for the batch
        abandoned = 6,  // the stream has gone on, and the batch has not ended yet
        over = 10       // for good: streams go by
    };
    static constexpr uint32_t kPhase = 15;
    static constexpr uint32_t kGraph = 16;  // a graph has it: it runs again and again
    static constexpr uint32_t kLast = 32;   // the run under way is its last

    static constexpr uint32_t begin(bool in_graph) { return waiting | (in_graph ? kGraph : 0); }
    static constexpr Phase phase(uint32_t word) { return static_cast<Phase>(word & kPhase); }
};

enum class TicketInput : uint8_t {
    arrive,   // the host function runs
    start,    // the loop has looked, and the batch is free
    end,      // cancel, or a close
    finish,   // the run under way is the last: a drain, or no graph has it any more
    done,     // the batch is over, and its memory quiet
    give_up,  // it was ended, and is not quiet a second later
};

enum class TicketOutput : uint8_t {
    nothing,
    ring,    // the loop looks
    start,   // the batch
    cancel,  // the run: done follows
    again,   // the run is over, and the next one may come
    tell,    // the one event
};

struct TicketStep {
    uint32_t word;
    TicketOutput output;
    bool operator==(const TicketStep &) const = default;
};

TicketStep step(uint32_t word, TicketInput input);

// What is written before (the result of a run, say) is seen by who sees the new word.
TicketOutput apply(std::atomic<uint32_t> &word, TicketInput input);

}  // namespace xfer
