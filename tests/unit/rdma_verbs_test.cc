// SPDX-License-Identifier: Apache-2.0
// libibverbs at run time: there, not there, and older than what is asked of it.
#include "transport/rdma/verbs.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

using namespace xfer;
using namespace xfer::rdma;

namespace {

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

// Of its verbs: it has nothing else.
size_t nulls(const Verbs &verbs) {
    std::array<void *, sizeof(Verbs) / sizeof(void *)> all;
    std::memcpy(all.data(), &verbs, sizeof all);
    return std::count(all.begin(), all.end(), nullptr);
}

// A context whose driver has a call of its own for ports, or none.
struct Driver : verbs_context {
    explicit Driver(bool extended) : verbs_context{} {
        sz = sizeof(verbs_context);
        context.abi_compat = extended ? __VERBS_ABI_IS_EXTENDED : nullptr;
        verbs_context::query_port = extended ? answer : nullptr;
        verbs_context::query_device_ex = extended ? answer_device : nullptr;
    }
    static int answer(ibv_context *, uint8_t port, ibv_port_attr *out, size_t size) {
        out->state = IBV_PORT_INIT;
        out->flags = IBV_QPF_GRH_REQUIRED;
        return port == 1 && size == sizeof *out ? 0 : EINVAL;
    }
    static int answer_device(ibv_context *, const ibv_query_device_ex_input *input,
                             ibv_device_attr_ex *out, size_t size) {
        out->odp_caps.general_caps = IBV_ODP_SUPPORT;
        return !input && size == sizeof *out ? 0 : EINVAL;
    }
};

}  // namespace

TEST_CASE("an absent library is an ordinary result, and is looked for again") {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("xfer-verbs-" + std::to_string(::getpid()));
    const auto absent = load_verbs_from(path.c_str());
    REQUIRE_FALSE(absent);
    CHECK(absent.error().status == XFER_EUNSUPPORTED);
    CHECK(absent.error().origin == XFER_ORIGIN_VERBS);
    CHECK_MESSAGE(contains(absent.error().message, path.c_str()), absent.error().message.c_str());
    CHECK_MESSAGE(contains(absent.error().message, "No such file"), absent.error().message.c_str());
    std::filesystem::create_symlink(OLD_LIBIBVERBS, path);
    CHECK(load_verbs_from(path.c_str()));
    std::filesystem::remove(path);
}

TEST_CASE("the symbol that is missing is named") {
    const auto other = load_verbs_from("libm.so.6");
    REQUIRE_FALSE(other);
    CHECK_MESSAGE(contains(other.error().message, "libm.so.6 has no ibv_get_device_list"),
                  other.error().message.c_str());
    const auto older = load_verbs_from(TOO_OLD_LIBIBVERBS);
    REQUIRE_FALSE(older);
    CHECK_MESSAGE(contains(older.error().message, "has no _ibv_query_gid_ex"),
                  older.error().message.c_str());
}

TEST_CASE("verbs that an older library lacks are null, all others are there") {
    auto verbs = load_verbs_from(OLD_LIBIBVERBS);
    REQUIRE(verbs);
    CHECK(!verbs->reg_mr_iova2);
    CHECK(!verbs->reg_dmabuf_mr);
    CHECK(nulls(*verbs) == 2);
}

TEST_CASE("a port is told by the driver itself, else by the library, and never by what lay there") {
    auto verbs = load_verbs_from(OLD_LIBIBVERBS);
    REQUIRE(verbs);
    for (const bool extended : {true, false}) {
        CAPTURE(extended);
        Driver driver(extended);
        ibv_port_attr port;
        std::memset(&port, 0xff, sizeof port);
        CHECK(verbs->query_port(&driver.context, 1, &port) == 0);
        CHECK(port.state == (extended ? IBV_PORT_INIT : IBV_PORT_ACTIVE));
        CHECK(port.flags == (extended ? IBV_QPF_GRH_REQUIRED : 0));
        CHECK(port.lid == 0);
        CHECK(port.active_speed == 0);
        CHECK(verbs->query_port(&driver.context, 2, &port) == EINVAL);
    }
}

TEST_CASE("a driver that was built before a call had its place is not asked for it") {
    auto verbs = load_verbs_from(OLD_LIBIBVERBS);
    REQUIRE(verbs);
    Driver driver(true);
    ibv_port_attr port;
    ibv_device_attr_ex device;
    driver.sz = sizeof(verbs_context) - offsetof(verbs_context, query_port) - 1;
    CHECK(verbs->query_port(&driver.context, 1, &port) == 0);
    CHECK(port.state == IBV_PORT_ACTIVE);  // as the library says
    CHECK(verbs->query_device_ex(&driver.context, &device) == 0);
    driver.sz = sizeof(verbs_context) - offsetof(verbs_context, query_device_ex);
    CHECK(verbs->query_device_ex(&driver.context, &device) == 0);
    --driver.sz;
    CHECK(verbs->query_device_ex(&driver.context, &device) == EOPNOTSUPP);
}

TEST_CASE("what newer drivers tell of a device is asked of them alone") {
    auto verbs = load_verbs_from(OLD_LIBIBVERBS);
    REQUIRE(verbs);
    Driver newer(true), older(false);
    ibv_device_attr_ex device;
    std::memset(&device, 0xff, sizeof device);
    CHECK(verbs->query_device_ex(&newer.context, &device) == 0);
    CHECK(device.odp_caps.general_caps == IBV_ODP_SUPPORT);
    CHECK(device.odp_caps.per_transport_caps.rc_odp_caps == 0);
    CHECK(verbs->query_device_ex(&older.context, &device) == EOPNOTSUPP);
}

TEST_CASE("the library of this machine is opened once, whoever asks") {
    std::vector<std::thread> threads;
    std::vector<const Verbs *> tables(8);
    for (const Verbs *&table : tables)
        threads.emplace_back([&table] {
            auto found = load_verbs();
            if (found) table = *found;
        });
    for (std::thread &thread : threads)
        thread.join();
    for (const Verbs *table : tables)
        CHECK(table == tables[0]);
    if (!tables[0]) {
        const Text why = load_verbs().error().message;
        MESSAGE(why.c_str());
        CHECK(contains(why, "libibverbs.so.1"));
        return;
    }
    CHECK(nulls(*tables[0]) == 0);
    int count = -1;
    ibv_device **devices = tables[0]->get_device_list(&count);
    if (!devices) {
        CHECK(errno == ENOSYS);  // the kernel has no RDMA
        return;
    }
    CHECK(count >= 0);
    for (int i = 0; i < count; ++i)
        CHECK(std::string(tables[0]->get_device_name(devices[i])) == devices[i]->name);
    CHECK(devices[count] == nullptr);
    tables[0]->free_device_list(devices);
}
