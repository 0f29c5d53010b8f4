// SPDX-License-Identifier: Apache-2.0
// Graphs, which streams capture, and their instances, which run in streams.
#pragma once

#include "streams.h"

namespace fake_cuda {

// Destroyed when nobody refers to it: the application, graphs, instances.
struct UserObject {
    CUhostFn destroy;
    void *data;
    unsigned references;
};

struct Graph {
    std::vector<Work> nodes;  // of one stream, in order
    std::vector<UserObject *> objects;
};

struct Exec {
    std::vector<Work> nodes;
    std::vector<UserObject *> objects;
    unsigned launches = 0;  // that are not over
    bool runs = false;      // one of them
    bool destroyed = false;

    void launch_on(Stream &stream);
    void end_if_unused();
};

void let_go(UserObject *object, unsigned count = 1);

}  // namespace fake_cuda
