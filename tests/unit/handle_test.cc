// SPDX-License-Identifier: Apache-2.0
#include "core/base/handle.h"

#include <doctest/doctest.h>

#include "core/engine/engine.h"
#include "core/transfer/notify_counter.h"

using namespace xfer;

namespace {

// How far the word that tells its type lies behind the start of a handle. No object is needed.
template <typename T>
intptr_t offset_of_handle() {
    constexpr intptr_t kSomewhere = 1 << 20;
    return reinterpret_cast<intptr_t>(static_cast<Handle *>(reinterpret_cast<T *>(kSomewhere))) -
           kSomewhere;
}

}  // namespace

// A batch had it behind its end: a region given for a batch was read past its own.
TEST_CASE("every handle begins with what tells its type") {
    CHECK(offset_of_handle<Engine>() == 0);
    CHECK(offset_of_handle<Region>() == 0);
    CHECK(offset_of_handle<Endpoint>() == 0);
    CHECK(offset_of_handle<Batch>() == 0);
    CHECK(offset_of_handle<NotifyCounter>() == 0);
}
