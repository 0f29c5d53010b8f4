// SPDX-License-Identifier: Apache-2.0
// Goes through all interleavings of a few threads that share atomic words, on a machine that delays
// stores: each thread has a queue of its own stores, which others see when it is drained, one by
// one and in order. Sequentially consistent stores and exchanges drain it (as on x86-64). A thread
// is a function that is run again and again from its start, with what its words answered so far.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace xfer::test {

class Interleavings {
public:
    using Program = std::function<void()>;

    // True if every thread comes to its end in every one of them.
    bool all_end(const std::vector<Program> &programs) {
        programs_ = programs;
        seen_.clear();
        stuck_ = false;
        State first;
        first.threads.resize(programs.size());
        explore(first);
        return !stuck_;
    }
    size_t states() const { return seen_.size(); }

    // ---- for words
    enum class Kind { load, store, delayed_store, exchange, wait, check };
    struct Step {
        Kind kind;
        const void *word;
        uint64_t value;
    };
    static uint64_t ask(const Step &step) {
        if (at_ < log_->size()) return (*log_)[at_++];
        throw step;
    }
    // Sleeps until the word is not 0, and takes it.
    static void wait(const void *word) { ask({Kind::wait, word, 0}); }
    // Of the whole: fails if it does not hold here.
    static void check(bool holds) {
        if (!holds) throw Step{Kind::check, nullptr, 0};
    }

private:
    struct Thread {
        std::vector<uint64_t> log;
        std::deque<std::pair<const void *, uint64_t>> stores;
        auto operator<=>(const Thread &) const = default;
    };
    struct State {
        std::map<const void *, uint64_t> memory;
        std::vector<Thread> threads;
        auto operator<=>(const State &) const = default;
    };

    void explore(const State &state) {
        if (stuck_ || !seen_.insert(state).second) return;
        bool moved = false, over = true;
        for (size_t i = 0; i < state.threads.size(); ++i) {
            if (!state.threads[i].stores.empty()) {
                State next = state;
                drain_one(next, next.threads[i]);
                explore(next);
                moved = true;
            }
            Step step{};
            if (!next_step(i, state.threads[i], step)) continue;
            over = false;
            if (step.kind == Kind::check) {
                stuck_ = true;
                return;
            }
            State next = state;
            if (!perform(next, next.threads[i], step)) continue;
            explore(next);
            moved = true;
        }
        if (!moved && !over) stuck_ = true;
    }
    bool next_step(size_t i, const Thread &thread, Step &step) {
        log_ = &thread.log;
        at_ = 0;
        try {
            programs_[i]();
        } catch (const Step &asked) {
            step = asked;
            return true;
        }
        return false;
    }
    static void drain_one(State &state, Thread &thread) {
        const auto [word, value] = thread.stores.front();
        state.memory[word] = value;
        thread.stores.pop_front();
    }
    static bool perform(State &state, Thread &thread, const Step &step) {
        if (step.kind == Kind::delayed_store) {
            thread.stores.emplace_back(step.word, step.value);
            thread.log.push_back(0);
            return true;
        }
        if (step.kind == Kind::load) {
            uint64_t value = state.memory[step.word];
            for (const auto &[word, stored] : thread.stores)
                if (word == step.word) value = stored;
            thread.log.push_back(value);
            return true;
        }
        while (!thread.stores.empty())
            drain_one(state, thread);
        uint64_t &memory = state.memory[step.word];
        if (step.kind == Kind::wait && memory == 0) return false;
        thread.log.push_back(memory);
        memory = step.value;
        return true;
    }

    std::vector<Program> programs_;
    std::set<State> seen_;
    bool stuck_ = false;
    static inline const std::vector<uint64_t> *log_ = nullptr;
    static inline size_t at_ = 0;
};

// Stands in for std::atomic.
template <typename T>
class Stepped {
public:
    T load(std::memory_order = std::memory_order_seq_cst) const {
        return static_cast<T>(Interleavings::ask({Interleavings::Kind::load, this, 0}));
    }
    void store(T value, std::memory_order order = std::memory_order_seq_cst) {
        const auto kind = order == std::memory_order_seq_cst ? Interleavings::Kind::store
                                                             : Interleavings::Kind::delayed_store;
        Interleavings::ask({kind, this, value});
    }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
        return static_cast<T>(Interleavings::ask({Interleavings::Kind::exchange, this, value}));
    }
};

}  // namespace xfer::test
