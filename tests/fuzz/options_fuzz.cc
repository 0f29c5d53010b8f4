// SPDX-License-Identifier: Apache-2.0
// Option structs of the C ABI, of any version: every call answers with a status, and what it says
// of itself fits that. The first byte says which struct, the second what its pointers point at; the
// struct itself follows, up to its own size, then text and bytes for its pointers.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "require.h"
#include "wire/ref.h"
#include "xfer/rdma.h"
#include "xfer/text.h"

using namespace xfer;

namespace {

constexpr size_t kLargest = 400;  // bytes of a struct: more than any has

void ignore(const xfer_event_t *, uint64_t) {}
void ignore_log(uint32_t, const char *, uint64_t) {}

// A struct as long as it says, so that a sanitizer sees a read past its end.
template <typename T>
class Given {
public:
    Given(const unsigned char *&data, size_t &size) {
        uint32_t length = sizeof(T);
        if (size >= sizeof length) std::memcpy(&length, data, sizeof length);
        length = std::min<uint32_t>(length, kLargest);
        const size_t known = std::min<size_t>(size, length);
        // Fields beyond a shorter struct's end are set below all the same.
        bytes_.resize(std::max<size_t>(length, sizeof(T)));
        std::memcpy(bytes_.data(), data, known);
        data += known;
        size -= known;
        length_ = length;
        std::memcpy(&fields, bytes_.data(), sizeof(T));
    }
    // With the fields as they are now.
    const T *get() {
        fields.size = length_;
        std::memcpy(bytes_.data(), &fields, sizeof(T));
        exact_ = std::make_unique<unsigned char[]>(std::max<size_t>(length_, sizeof fields.size));
        std::memcpy(exact_.get(), bytes_.data(), std::max<size_t>(length_, sizeof fields.size));
        return reinterpret_cast<const T *>(exact_.get());
    }
    T fields;

private:
    uint32_t length_ = 0;
    std::vector<unsigned char> bytes_;
    std::unique_ptr<unsigned char[]> exact_;
};

// What pointers point at: memory of the longest that may be read, and text with its NUL.
struct Behind {
    Behind(const unsigned char *data, size_t size) : text(data, data + size) {
        text.push_back(0);
        std::memcpy(bytes.get(), data, std::min<size_t>(size, kBytes));
        std::memcpy(&ref, data, std::min(size, sizeof ref));
        // A ref with a sound sum, if there is no other, so that calls come to look at its fields.
        if (size == 0 || data[0] != 'x') ref = encode_ref(region());
    }
    RemoteRegion region() const {
        RemoteRegion region;
        region.id.fill(7);
        region.incarnation = region.region = region.key = 1;
        region.length = 1 << 20;
        region.access = XFER_READ | XFER_WRITE;
        region.kind = XFER_MEM_HOST;
        return region;
    }
    const char *string() const { return reinterpret_cast<const char *>(text.data()); }

    static constexpr size_t kBytes = 1024;
    std::vector<unsigned char> text;
    std::unique_ptr<unsigned char[]> bytes = std::make_unique<unsigned char[]>(kBytes);
    xfer_ref_t ref;
};

bool sound(xfer_status_t status) {
    return status <= 0 && std::strcmp(xfer_status_name(status), "XFER_EUNKNOWN") != 0 &&
           status != XFER_EINTERNAL;
}

void require_sound(xfer_status_t status, const xfer_error_t &err) {
    REQUIRE(sound(status));
    REQUIRE(err.status == status);
    REQUIRE(std::memchr(err.message, 0, sizeof err.message) != nullptr);
    REQUIRE(status != XFER_OK || err.message[0] == 0);
}

void drain(xfer_engine_t *engine) {
    xfer_event_t events[8];
    for (uint32_t count = 8; count == 8;)
        REQUIRE(xfer_engine_poll(engine, events, sizeof events[0], 8, 0, &count) == XFER_OK);
}

// The engine whose regions, endpoints and batches are tried; it ends with the process.
struct World {
    World() {
        xfer_engine_options_t options = {};
        options.size = sizeof options;
        options.dispatch = XFER_DISPATCH_POLL;
        options.io_threads = XFER_NONE;
        REQUIRE(xfer_engine_open(&options, &engine, nullptr) == XFER_OK);
        REQUIRE(xfer_ep_open(engine, "tcp://127.0.0.1:9", nullptr, &ep, nullptr) == XFER_OK);
        REQUIRE(xfer_batch_open(ep, nullptr, &batch, nullptr) == XFER_OK);
    }
    ~World() {
        xfer_batch_close(batch);
        xfer_ep_close(ep);
        xfer_engine_join(engine, XFER_NONE);
    }
    xfer_engine_t *engine = nullptr;
    xfer_ep_t *ep = nullptr;
    xfer_batch_t *batch = nullptr;
};

World &world() {
    static World it;
    return it;
}

void try_engine(const unsigned char *data, size_t size, unsigned which) {
    Given<xfer_engine_options_t> given(data, size);
    const Behind behind(data, size);
    xfer_engine_options_t &options = given.fields;
    options.uv_loop = nullptr;
    options.on_event = which & 1 ? ignore : nullptr;
    options.on_log = which & 2 ? ignore_log : nullptr;
    options.blob = which & 4 ? behind.bytes.get() : nullptr;
    options.key = which & 8 ? behind.bytes.get() : nullptr;
    options.transports = which & 16 ? behind.string() : nullptr;
    options.advertise = which & 32 ? behind.string() : nullptr;
    options.rdma = nullptr;                                 // see try_rdma
    if (options.io_threads < 64) options.io_threads %= 3;   // more of them tell nothing more
    if (options.spin_us < 1'000'000) options.spin_us %= 2;  // and to wait here tells nothing
    xfer_engine_t *engine = nullptr;
    xfer_error_t err;
    const xfer_status_t status = xfer_engine_open(given.get(), &engine, &err);
    require_sound(status, err);
    REQUIRE((status == XFER_OK) == (engine != nullptr));
    if (!engine) return;
    xfer_id_t id;
    REQUIRE(xfer_engine_id(engine, &id) == XFER_OK && id.incarnation != 0);
    uint64_t needed = 0;
    REQUIRE(xfer_engine_describe(engine, nullptr, 0, &needed) == XFER_ENOSPC && needed > 1);
    REQUIRE(xfer_engine_join(engine, XFER_NONE) == XFER_OK);
}

void try_region(const unsigned char *data, size_t size, unsigned which) {
    static unsigned char memory[4096];
    Given<xfer_region_options_t> given(data, size);
    const Behind behind(data, size);
    given.fields.name = which & 1 ? behind.string() : nullptr;
    given.fields.blob = which & 2 ? behind.bytes.get() : nullptr;
    xfer_region_t *region = nullptr;
    xfer_error_t err;
    const xfer_status_t status =
        xfer_region_open(world().engine, given.get(), which & 4 ? nullptr : memory,
                         which & 8 ? 0 : sizeof memory, &region, &err);
    require_sound(status, err);
    REQUIRE((status == XFER_OK) == (region != nullptr));
    if (!region) return;
    xfer_region_info_t info;
    constexpr uint32_t kAccesses = XFER_READ | XFER_WRITE | XFER_ATOMIC;
    REQUIRE(xfer_region_info(region, &info, sizeof info) == XFER_OK && info.access <= kAccesses);
    REQUIRE(xfer_region_close(region) == XFER_OK);
    drain(world().engine);
}

void try_ep(const unsigned char *data, size_t size, unsigned which) {
    Given<xfer_ep_options_t> given(data, size);
    const Behind behind(data, size);
    xfer_id_t peer;
    std::memcpy(&peer, behind.bytes.get(), sizeof peer);
    given.fields.peer = which & 1 ? &peer : nullptr;
    xfer_ep_t *ep = nullptr;
    xfer_error_t err;
    const char *uri = which & 2 ? behind.string() : "tcp://127.0.0.1:9";
    const xfer_status_t status =
        xfer_ep_open(world().engine, which & 4 ? nullptr : uri, given.get(), &ep, &err);
    require_sound(status, err);
    REQUIRE((status == XFER_OK) == (ep != nullptr));
    if (ep) REQUIRE(xfer_ep_close(ep) == XFER_OK);
    drain(world().engine);
}

void try_strided(const unsigned char *data, size_t size, unsigned which) {
    Given<xfer_strided_t> given(data, size);
    const Behind behind(data, size);
    given.fields.remote = which & 1 ? &behind.ref : nullptr;
    REQUIRE(sound(xfer_batch_add_strided(world().batch, which >> 1 & 3, given.get(), nullptr)));
    REQUIRE(xfer_batch_reset(world().batch) == XFER_OK);
}

void try_pages(const unsigned char *data, size_t size, unsigned which) {
    Given<xfer_pages_t> given(data, size);
    const Behind behind(data, size);
    constexpr uint64_t kPages = 16, kBases = 4;
    xfer_pages_t &pages = given.fields;
    pages.count %= kPages + 1;
    pages.base_count %= kBases + 1;
    pages.base_size %= 2 * sizeof(xfer_page_base_t);
    uint64_t lists[2][kPages];
    std::memcpy(lists, behind.bytes.get(), sizeof lists);
    if (which & 16)
        for (auto &list : lists)
            for (uint64_t &page : list)
                page %= 64;  // where pages may lie
    std::vector<unsigned char> bases(pages.base_count * pages.base_size);
    for (uint64_t b = 0; b < pages.base_count && pages.base_size >= sizeof(xfer_page_base_t); ++b) {
        xfer_page_base_t base;
        std::memcpy(&base, behind.bytes.get() + sizeof lists + b * sizeof base, sizeof base);
        base.remote = which & 8 && b == 3 ? nullptr : &behind.ref;
        if (which & 16) base.offset %= 4096;
        std::memcpy(&bases[b * pages.base_size], &base, sizeof base);
    }
    pages.local_pages = which & 1 ? lists[0] : nullptr;
    pages.remote_pages = which & 2 ? lists[1] : nullptr;
    pages.bases = which & 4 ? reinterpret_cast<const xfer_page_base_t *>(bases.data()) : nullptr;
    REQUIRE(sound(xfer_batch_add_pages(world().batch, which >> 5 & 3, given.get(), nullptr)));
    REQUIRE(xfer_batch_reset(world().batch) == XFER_OK);
}

void try_batch(const unsigned char *data, size_t size, unsigned) {
    Given<xfer_batch_options_t> given(data, size);
    xfer_batch_t *batch = nullptr;
    xfer_error_t err;
    const xfer_status_t status = xfer_batch_open(world().ep, given.get(), &batch, &err);
    require_sound(status, err);
    REQUIRE((status == XFER_OK) == (batch != nullptr));
    if (batch) REQUIRE(xfer_batch_close(batch) == XFER_OK);
    drain(world().engine);
}

void try_listen(const unsigned char *data, size_t size, unsigned which) {
    Given<xfer_listen_options_t> given(data, size);
    const Behind behind(data, size);
    given.fields.advertise = which & 1 ? behind.string() : nullptr;
    const char *uri = which & 2 ? "tcp://127.0.0.1:0" : "shm://xfer-options-fuzz";
    xfer_engine_options_t options = {};
    options.size = sizeof options;
    options.dispatch = XFER_DISPATCH_POLL;
    options.io_threads = XFER_NONE;
    xfer_engine_t *engine = nullptr;
    REQUIRE(xfer_engine_open(&options, &engine, nullptr) == XFER_OK);
    char bound[256];
    xfer_error_t err;
    require_sound(xfer_engine_listen(engine, uri, given.get(), bound, sizeof bound, &err), err);
    REQUIRE(xfer_engine_join(engine, XFER_NONE) == XFER_OK);
}

void try_counter(const unsigned char *data, size_t size, unsigned which) {
    Given<xfer_counter_options_t> given(data, size);
    xfer_counter_t *counter = nullptr;
    xfer_error_t err;
    const xfer_status_t status =
        xfer_counter_open(world().engine, which & 1, which & 2, given.get(), &counter, &err);
    require_sound(status, err);
    REQUIRE((status == XFER_OK) == (counter != nullptr));
    drain(world().engine);
    if (counter) REQUIRE(xfer_counter_close(counter) == XFER_OK);
    drain(world().engine);
}

void try_rdma(const unsigned char *data, size_t size, unsigned which) {
    Given<xfer_rdma_options_t> given(data, size);
    const Behind behind(data, size);
    given.fields.devices = which & 1 ? behind.string() : nullptr;
    xfer_engine_options_t options = {};
    options.size = sizeof options;
    options.dispatch = XFER_DISPATCH_POLL;
    options.io_threads = XFER_NONE;
    options.transports = "loopback";
    options.rdma = given.get();
    xfer_engine_t *engine = nullptr;
    xfer_error_t err;
    const xfer_status_t status = xfer_engine_open(&options, &engine, &err);
    require_sound(status, err);
    REQUIRE((status == XFER_OK) == (engine != nullptr));
    if (!engine) return;
    uint64_t needed = 0;
    REQUIRE(xfer_engine_describe(engine, nullptr, 0, &needed) == XFER_ENOSPC && needed > 1);
    REQUIRE(xfer_engine_join(engine, XFER_NONE) == XFER_OK);
}

// An option by its name: the first line of what follows the struct is the name, the rest its text.
void try_named(const unsigned char *data, size_t size, unsigned) {
    Given<xfer_engine_options_t> given(data, size);
    const std::string lines(reinterpret_cast<const char *>(data), size);
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string name = lines.substr(0, end), text = lines.substr(std::min(end + 1, size));
    const uint32_t length = given.get()->size;
    std::vector<unsigned char> before(std::max<size_t>(length, sizeof length));
    std::memcpy(before.data(), given.get(), before.size());
    std::vector<unsigned char> after = before;
    auto *options = reinterpret_cast<xfer_engine_options_t *>(after.data());
    xfer_error_t err;
    const xfer_status_t status = xfer_engine_option_set(options, name.c_str(), text.c_str(), &err);
    require_sound(status, err);
    if (status != XFER_OK) {
        REQUIRE(after == before);
        return;
    }
    const std::vector<unsigned char> once = after;
    REQUIRE(xfer_engine_option_set(options, name.c_str(), text.c_str(), nullptr) == XFER_OK);
    REQUIRE(after == once);
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
    constexpr void (*kTries[])(const unsigned char *, size_t, unsigned) = {
        try_engine, try_region, try_ep,      try_strided, try_pages,
        try_batch,  try_listen, try_counter, try_named,   try_rdma};
    if (size < 2) return 0;
    kTries[data[0] % std::size(kTries)](data + 2, size - 2, data[1]);
    return 0;
}
