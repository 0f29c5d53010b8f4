// SPDX-License-Identifier: Apache-2.0
// The far end of a test: a queue pair and its memory that do what they are asked. It lives in this
// process (Here), or in another one that is asked over a socket (Elsewhere, rdma_peer): of this
// machine, or of the other guest.
#pragma once

#include <sys/types.h>

#include <memory>

#include "endpoint.h"

namespace rdma_test {

constexpr size_t kTargetBytes = size_t(8) << 20;
constexpr uint16_t kPeerPort = 18515;

enum class Ask : uint32_t {
    kOpen,        // a queue pair and its memory: the parameters; those before end
    kConnect,     // to the parameters
    kFill,        // the memory with `seed`
    kCompare,     // `length` bytes at `offset` with `seed`: `value` is what Buffer::differs says
    kReceive,     // posts `length` receives of 4 KiB, one behind the other, with ids from 0
    kNext,        // completion: `value` is its status, or -1
    kDeregister,  // the memory
    kState,       // `value` is the queue pair's
    kDie,         // by SIGKILL, with everything open; no answer
};

struct Question {
    Ask ask;
    uint32_t seed = 0;
    uint64_t offset = 0;
    uint64_t length = 0;
    Parameters parameters{};
};

struct Answer {
    int64_t value = 0;
    uint64_t id = 0;
    uint32_t bytes = 0, immediate = 0;
    Parameters parameters{};
};

class Here {
public:
    Answer ask(const Question &question);

private:
    Answer open();
    Answer next();

    std::unique_ptr<Buffer> memory_;
    std::unique_ptr<Endpoint> endpoint_;  // behind the memory: dies before it
};

class Elsewhere {
public:
    // Starts rdma_peer, which lies beside this program; or connects to RDMA_TEST_PEER.
    Elsewhere();
    ~Elsewhere();
    Elsewhere(const Elsewhere &) = delete;
    Elsewhere &operator=(const Elsewhere &) = delete;

    Answer ask(const Question &question);
    void tell(const Question &question);  // what has no answer

private:
    int socket_ = -1;
    pid_t process_ = -1;
};

// Whole messages; false at the other side's end.
bool send_all(int socket, const void *data, size_t length);
bool receive_all(int socket, void *data, size_t length);

}  // namespace rdma_test
