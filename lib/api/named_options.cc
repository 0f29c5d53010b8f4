// SPDX-License-Identifier: Apache-2.0
// The options of an engine by name. tests/api/option.c reads the header, and fails for a field or a
// flag that has no row here.
#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>

#include "api/guard.h"
#include "xfer/text.h"

using namespace xfer;

namespace {

struct Field {
    const char *name = nullptr;
    size_t offset = 0, size = 0;
};

#define XFER_FIELD(field) \
    { #field, offsetof(xfer_engine_options_t, field), sizeof(xfer_engine_options_t::field) }

struct NamedOption {
    xfer_option_info_t info;
    Field field;
    Field length;       // the field that has the length of this one, if there is one
    uint32_t flag = 0;  // of the field, the rest of which stays
};

constexpr NamedOption number(const Field &field, const char *help) {
    return {{field.name, "NUMBER", help, XFER_OPTION_NUMBER, 0}, field, {}};
}
constexpr NamedOption number_or_none(const Field &field, const char *help) {
    return {{field.name, "NUMBER|none", help, XFER_OPTION_NUMBER, 0}, field, {}};
}
constexpr NamedOption text(const Field &field, const char *help, const Field &length = {}) {
    return {{field.name, "TEXT", help, XFER_OPTION_TEXT, 0}, field, length};
}
constexpr NamedOption hex(const Field &field, const char *help) {
    return {{field.name, "HEX", help, XFER_OPTION_HEX, 0}, field, {}};
}
// The words stand for 1, 2 and so on.
constexpr NamedOption choice(const Field &field, const char *words, const char *help) {
    return {{field.name, words, help, XFER_OPTION_CHOICE, 0}, field, {}};
}
constexpr NamedOption flag(const char *name, uint32_t bit, const char *help) {
    return {{name, "yes|no", help, XFER_OPTION_FLAG, 0}, XFER_FIELD(flags), {}, bit};
}

constexpr NamedOption kNamedOptions[] = {
    choice(XFER_FIELD(dispatch), "thread|loop|poll", "where events arrive (thread)"),
    number_or_none(XFER_FIELD(io_threads),
                   "threads that drive sockets; none: the dispatching side does it"),
    number_or_none(XFER_FIELD(spin_us), "how long to poll before sleeping, in microseconds"),
    number(XFER_FIELD(user), "word of the engine in its own events"),
    number(XFER_FIELD(log_user), "word of the engine in its log lines"),
    choice(XFER_FIELD(log_level), "error|warn|info|debug",
           "the least serious lines that are logged (warn)"),
    flag("insecure", XFER_ENGINE_INSECURE, "listen beyond loopback without a key"),
    flag("checksum", XFER_ENGINE_CHECKSUM,
         "add a CRC-32C to every payload that goes over a network"),
    flag("unref", XFER_ENGINE_UNREF, "with dispatch loop: do not keep uv_run from returning"),
    flag("own_peers", XFER_ENGINE_OWN_PEERS, "the handles of PEER events are the caller's"),
    flag("ask", XFER_ENGINE_ASK, "the application lets peers in, by xfer_ep_admit"),
    hex(XFER_FIELD(id), "identity that is kept over restarts (random)"),
    text(XFER_FIELD(blob), "shown to peers, at most 1,024 bytes", XFER_FIELD(blob_length)),
    text(XFER_FIELD(key), "shared secret of all members, 32 to 256 bytes", XFER_FIELD(key_length)),
    text(XFER_FIELD(transports), "only these, such as loopback,tcp (all)"),
    text(XFER_FIELD(advertise), "URIs that peers should dial, with commas (what was bound)"),
    number_or_none(XFER_FIELD(timeout_ms), "deadline of operations that give none (none)"),
    number(XFER_FIELD(stall_ms), "an operation of which no byte moves for this long ends (30000)"),
    number(XFER_FIELD(connect_ms), "limit of one attempt to connect (5000)"),
    number(XFER_FIELD(heartbeat_ms), "a peer that is silent for twice this is lost (5000)"),
    number(XFER_FIELD(idle_ms), "a connection that is unused for this long is closed (300000)"),
    number_or_none(XFER_FIELD(lanes), "data lanes for each peer; none: the control channel alone"),
    number(XFER_FIELD(max_connections), "peers that are connected at once (1024)"),
    number(XFER_FIELD(max_operations), "operations queued or under way on an endpoint (1024)"),
    number_or_none(XFER_FIELD(yield_ms), "how long the larger id waits to be dialed first (none)"),
};

#undef XFER_FIELD

const NamedOption *find_option(std::string_view name) {
    for (const NamedOption &option : kNamedOptions)
        if (name == option.info.name) return &option;
    return nullptr;
}

bool may_be_none(const NamedOption &option) {
    return std::string_view(option.info.values).ends_with("|none");
}

template <typename T>
void store_field(xfer_engine_options_t &options, const Field &field, const T &value) {
    std::memcpy(reinterpret_cast<unsigned char *>(&options) + field.offset, &value, sizeof value);
}

bool set_number(xfer_engine_options_t &options, const NamedOption &option, std::string_view text) {
    uint64_t value = 0;
    const char *const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    const bool none = may_be_none(option) && text == "none";
    if (!none && (error != std::errc() || rest != end)) return false;
    if (option.field.size == sizeof value) {
        store_field(options, option.field, value);
        return true;
    }
    if (value >= XFER_NONE) return false;  // which has a word
    store_field(options, option.field, none ? XFER_NONE : static_cast<uint32_t>(value));
    return true;
}

// 1 for the first of the words.
uint32_t place_among(std::string_view words, std::string_view word) {
    for (uint32_t place = 1; !words.empty(); ++place) {
        const size_t bar = std::min(words.find('|'), words.size());
        if (words.substr(0, bar) == word) return place;
        words.remove_prefix(std::min(bar + 1, words.size()));
    }
    return 0;
}

bool set_flag(xfer_engine_options_t &options, const NamedOption &option, std::string_view text) {
    if (place_among("yes|true|on|1", text))
        options.flags |= option.flag;
    else if (place_among("no|false|off|0", text))
        options.flags &= ~option.flag;
    else
        return false;
    return true;
}

bool set_hex(xfer_engine_options_t &options, const NamedOption &option, std::string_view text) {
    std::array<uint8_t, sizeof(xfer_engine_options_t::id)> bytes;  // no other option has digits
    if (text.size() != 2 * bytes.size() || ::sodium_hex2bin(bytes.data(), bytes.size(), text.data(),
                                                            text.size(), nullptr, nullptr, nullptr))
        return false;
    store_field(options, option.field, bytes);
    return true;
}

bool set_field(xfer_engine_options_t &options, const NamedOption &option, const char *text) {
    switch (option.info.kind) {
    case XFER_OPTION_NUMBER:
        return set_number(options, option, text);
    case XFER_OPTION_FLAG:
        return set_flag(options, option, text);
    case XFER_OPTION_HEX:
        return set_hex(options, option, text);
    case XFER_OPTION_CHOICE:
        if (const uint32_t place = place_among(option.info.values, text); place) {
            store_field(options, option.field, place);
            return true;
        }
        return false;
    default:
        store_field(options, option.field, text);
        if (option.length.size) store_field<uint64_t>(options, option.length, std::strlen(text));
        return true;
    }
}

std::string what_it_may_be(const NamedOption &option) {
    const char *const or_none = may_be_none(option) ? ", or none" : "";
    switch (option.info.kind) {
    case XFER_OPTION_NUMBER:
        return fmt::format("a number up to {}{}",
                           option.field.size == sizeof(uint64_t) ? UINT64_MAX : XFER_NONE - 1ull,
                           or_none);
    case XFER_OPTION_HEX:
        return fmt::format("{} hexadecimal digits", 2 * option.field.size);
    default:
        return fmt::format("one of {}", option.info.values);
    }
}

Status set_option(xfer_engine_options_t *options, const char *name, const char *text,
                  Failure &why) {
    if (!options) return invalid(why, "options is NULL");
    if (!name || !text) return invalid(why, name ? "text is NULL" : "name is NULL");
    if (Status status = check_input(shape_of(options), options, why); status != XFER_OK)
        return status;
    const NamedOption *option = find_option(name);
    if (!option)
        return refuse(why, XFER_ENOTFOUND, fmt::format("no option is called \"{:.64}\"", name));
    const size_t end = std::max(option->field.offset + option->field.size,
                                option->length.offset + option->length.size);
    if (end > options->size)
        return invalid(why, fmt::format("xfer_engine_options_t.size is {}: that one has no {}",
                                        options->size, name));
    if (!set_field(*options, *option, text))
        return invalid(why, fmt::format("option {} is \"{:.64}\": it may be {}", name, text,
                                        what_it_may_be(*option)));
    return XFER_OK;
}

}  // namespace

xfer_status_t xfer_engine_option_at(uint32_t index, xfer_option_info_t *info, uint32_t info_size) {
    return guarded([&](Failure &why) -> Status {
        if (!info) return XFER_EINVAL;
        if (index >= std::size(kNamedOptions)) return XFER_ENOTFOUND;
        return copy_out(kNamedOptions[index].info, info, info_size, why);
    });
}

xfer_status_t xfer_engine_option_set(xfer_engine_options_t *options, const char *name,
                                     const char *text, xfer_error_t *err) {
    return guarded(Call{__func__, nullptr, err},
                   [&](Failure &why) { return set_option(options, name, text, why); });
}
