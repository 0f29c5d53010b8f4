// SPDX-License-Identifier: Apache-2.0
// rdma_owner: an engine that lends its region "memory" to the other guest until it is killed.
#include <cstdlib>

#include "engine.h"

using namespace rdma_test;

int main() {
    std::vector<uint8_t> memory(kOwnerBytes);
    Engine engine;
    engine.lend(memory);
    engine.listen(std::string("tcp://") + std::getenv("XFER_GUEST_ADDRESS") + kOwnerPort);
    for (;;)
        engine.next(1);
}
