// SPDX-License-Identifier: Apache-2.0
#include "device/stream_ticket.h"

namespace xfer {

namespace {

uint32_t with(uint32_t word, Ticket::Phase phase) {
    return (word & ~Ticket::kPhase) | phase;
}

// What has not begun is over at once. A run goes on, and is the last.
TicketStep ended(uint32_t word, TicketOutput of_run) {
    switch (Ticket::phase(word)) {
    case Ticket::waiting:
    case Ticket::arrived:
        return {with(word, Ticket::over), TicketOutput::tell};
    case Ticket::running:
        return {word | Ticket::kLast, of_run};
    default:
        return {word, TicketOutput::nothing};
    }
}

TicketStep done(uint32_t word) {
    const Ticket::Phase phase = Ticket::phase(word);
    if (phase != Ticket::running && phase != Ticket::abandoned)
        return {word, TicketOutput::nothing};
    const bool again = (word & Ticket::kGraph) && !(word & Ticket::kLast);
    if (again) return {with(word, Ticket::waiting), TicketOutput::again};
    return {with(word, Ticket::over), TicketOutput::tell};
}

}  // namespace

TicketStep step(uint32_t word, TicketInput input) {
    const Ticket::Phase phase = Ticket::phase(word);
    switch (input) {
    case TicketInput::arrive:  // a second instance of the graph changes nothing
        if (phase == Ticket::waiting) return {with(word, Ticket::arrived), TicketOutput::ring};
        break;
    case TicketInput::start:
        if (phase == Ticket::arrived) return {with(word, Ticket::running), TicketOutput::start};
        break;
    case TicketInput::end:
        return ended(word, TicketOutput::cancel);
    case TicketInput::finish:  // the graph, but for a run that is under way
        if (word & Ticket::kGraph) return ended(word, TicketOutput::nothing);
        break;
    case TicketInput::done:
        return done(word);
    case TicketInput::give_up:
        if (phase == Ticket::running)
            return {with(word, Ticket::abandoned) | Ticket::kLast, TicketOutput::nothing};
        break;
    }
    return {word, TicketOutput::nothing};
}

TicketOutput apply(std::atomic<uint32_t> &word, TicketInput input) {
    uint32_t before = word.load();
    for (;;) {
        const TicketStep next = step(before, input);
        if (word.compare_exchange_weak(before, next.word)) return next.output;
    }
}

}  // namespace xfer
