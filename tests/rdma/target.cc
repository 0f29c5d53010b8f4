// SPDX-License-Identifier: Apache-2.0
#include "target.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace rdma_test {

namespace {

constexpr size_t kReceiveBytes = 4096;

int connect_to(const char *address) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kPeerPort);
    must(::inet_pton(AF_INET, address, &to.sin_addr) == 1, "RDMA_TEST_PEER");
    const double end = now() + 20;  // it may not listen yet
    while (::connect(socket, reinterpret_cast<sockaddr *>(&to), sizeof to)) {
        must(now() < end, "connect to RDMA_TEST_PEER");
        ::usleep(100'000);
    }
    return socket;
}

}  // namespace

Answer Here::open() {
    endpoint_.reset();
    memory_ = std::make_unique<Buffer>(far_device(), kTargetBytes);
    endpoint_ = std::make_unique<Endpoint>(far_device());
    Answer answer;
    answer.parameters = endpoint_->parameters(*memory_);
    return answer;
}

Answer Here::next() {
    Answer answer;
    answer.value = -1;
    if (const std::optional<ibv_wc> found = endpoint_->next()) {
        answer.value = found->status;
        answer.id = found->wr_id;
        answer.bytes = found->byte_len;
        answer.immediate = found->imm_data;
    }
    return answer;
}

Answer Here::ask(const Question &question) {
    Answer answer;
    switch (question.ask) {
    case Ask::kOpen:
        return open();
    case Ask::kConnect:
        endpoint_->connect(question.parameters);
        break;
    case Ask::kFill:
        memory_->fill(question.seed);
        break;
    case Ask::kCompare:
        answer.value = memory_->differs(question.seed, question.offset, question.length);
        break;
    case Ask::kReceive:
        for (uint64_t id = 0; id < question.length; ++id)
            must(!post_receive(*endpoint_, id,
                               piece(*memory_, size_t(id) * kReceiveBytes, kReceiveBytes)),
                 "ibv_post_recv");
        break;
    case Ask::kNext:
        return next();
    case Ask::kDeregister:
        memory_->deregister();
        break;
    case Ask::kState:
        answer.value = endpoint_->state();
        break;
    case Ask::kDie:
        ::raise(SIGKILL);
        break;
        break;
    }
    return answer;
}

Elsewhere::Elsewhere() {
    if (const char *const address = std::getenv("RDMA_TEST_PEER")) {
        socket_ = connect_to(address);
        return;
    }
    int ends[2];
    must(!::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), "socketpair");
    socket_ = ends[0];
    const std::string program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "rdma_peer";
    process_ = ::fork();
    must(process_ >= 0, "fork");
    if (process_ == 0) {
        ::dup2(ends[1], STDIN_FILENO);
        ::execl(program.c_str(), program.c_str(), nullptr);
        ::_exit(127);
    }
    ::close(ends[1]);
}

Elsewhere::~Elsewhere() {
    ::close(socket_);
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

void Elsewhere::tell(const Question &question) {
    must(send_all(socket_, &question, sizeof question), "tell the peer");
}

Answer Elsewhere::ask(const Question &question) {
    tell(question);
    Answer answer;
    must(receive_all(socket_, &answer, sizeof answer), "the peer's answer");
    return answer;
}

bool send_all(int socket, const void *data, size_t length) {
    return ::send(socket, data, length, MSG_NOSIGNAL) == ssize_t(length);
}

bool receive_all(int socket, void *data, size_t length) {
    return ::recv(socket, data, length, MSG_WAITALL) == ssize_t(length);
}

}  // namespace rdma_test
