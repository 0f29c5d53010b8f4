// SPDX-License-Identifier: Apache-2.0
// rdma_peer: the far end of a test in a process of its own. It is asked over its stdin, a socket;
// or with --serve by whoever connects over TCP, each served by a process of its own.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "target.h"

using namespace rdma_test;

namespace {

int serve(int socket) {
    Here target;
    Question question;
    while (receive_all(socket, &question, sizeof question)) {
        const Answer answer = target.ask(question);
        if (!send_all(socket, &answer, sizeof answer)) break;
    }
    return 0;
}

int listen_everywhere() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_port = htons(kPeerPort);
    must(!::bind(listener, reinterpret_cast<sockaddr *>(&here), sizeof here), "bind");
    must(!::listen(listener, 4), "listen");
    return listener;
}

}  // namespace

int main(int count, char **words) {
    if (count < 2 || std::strcmp(words[1], "--serve") != 0) return serve(STDIN_FILENO);
    const int listener = listen_everywhere();
    ::signal(SIGCHLD, SIG_IGN);  // nobody waits for them
    for (;;) {
        const int socket = ::accept(listener, nullptr, nullptr);
        must(socket >= 0, "accept");
        const pid_t child = ::fork();
        must(child >= 0, "fork");
        if (child == 0) return serve(socket);
        ::close(socket);
    }
}
