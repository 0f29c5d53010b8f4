/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "manifest.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static const char kMagic[8] = {'x', 'f', 'e', 'r', 't', 'r', 'e', '2'};
enum { HEADER_BYTES = 32, ENTRY_BYTES = 40, PATH_LIMIT = 4096, SECOND = 1000000000 };
enum { GAP_LIMIT = 64 * 1024 }; /* files begin at page boundaries: the largest page there is */

bool manifest_add(struct manifest *manifest, struct entry entry) {
    if (manifest->count == manifest->capacity) {
        uint64_t capacity = manifest->capacity ? 2 * manifest->capacity : 1024;
        struct entry *grown = realloc(manifest->entries, capacity * sizeof *grown);
        if (!grown) {
            free(entry.path);
            free(entry.target);
            return false;
        }
        manifest->entries = grown;
        manifest->capacity = capacity;
    }
    manifest->entries[manifest->count++] = entry;
    return true;
}

uint64_t manifest_file_count(const struct manifest *manifest) {
    uint64_t files = 0;
    for (uint64_t i = 0; i < manifest->count; i++)
        files += manifest->entries[i].kind == ENTRY_FILE;
    return files;
}

uint64_t manifest_file_bytes(const struct manifest *manifest) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < manifest->count; i++)
        bytes += manifest->entries[i].size;
    return bytes;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value) {
    uint64_t little = htole64(value);
    return (uint8_t *)memcpy(at, &little, sizeof little) + sizeof little;
}

static uint8_t *put_u32(uint8_t *at, uint32_t value) {
    uint32_t little = htole32(value);
    return (uint8_t *)memcpy(at, &little, sizeof little) + sizeof little;
}

static uint8_t *put_text(uint8_t *at, const char *text, uint32_t bytes) {
    if (bytes > 0) memcpy(at, text, bytes);
    return at + bytes;
}

static uint64_t get_u64(const uint8_t *at) {
    uint64_t little;
    memcpy(&little, at, sizeof little);
    return le64toh(little);
}

static uint32_t get_u32(const uint8_t *at) {
    uint32_t little;
    memcpy(&little, at, sizeof little);
    return le32toh(little);
}

static uint32_t text_bytes(const char *text) {
    return text ? (uint32_t)strlen(text) + 1 : 0;
}

uint8_t *manifest_encode(const struct manifest *manifest, uint64_t *size) {
    uint64_t total = HEADER_BYTES;
    for (uint64_t i = 0; i < manifest->count; i++) {
        const struct entry *entry = &manifest->entries[i];
        total += ENTRY_BYTES + text_bytes(entry->path) + text_bytes(entry->target);
    }
    uint8_t *bytes = malloc(total);
    if (!bytes) return NULL;
    uint8_t *at = memcpy(bytes, kMagic, sizeof kMagic);
    at = put_u64(at + sizeof kMagic, manifest->count);
    at = put_u64(at, manifest->data_size);
    at = put_u64(at, manifest->disk_bytes);
    for (uint64_t i = 0; i < manifest->count; i++) {
        const struct entry *entry = &manifest->entries[i];
        at = put_u64(at, entry->offset);
        at = put_u64(at, entry->size);
        at = put_u64(at, (uint64_t)entry->seconds);
        at = put_u32(at, entry->nanoseconds);
        at = put_u32(at, (uint32_t)entry->kind | entry->mode << 16);
        at = put_u32(at, text_bytes(entry->path));
        at = put_u32(at, text_bytes(entry->target));
        at = put_text(at, entry->path, text_bytes(entry->path));
        at = put_text(at, entry->target, text_bytes(entry->target));
    }
    *size = total;
    return bytes;
}

/* A path that stays inside: relative, with no empty, "." or ".." component. */
static bool path_is_safe(const char *path) {
    for (;;) {
        size_t length = strcspn(path, "/");
        if (length == 0) return false;
        if (path[0] == '.' && (length == 1 || (length == 2 && path[1] == '.'))) return false;
        if (path[length] == '\0') return true;
        path += length + 1;
    }
}

/* Whether the directory that `path` lies in is one of the first `count` entries. */
static bool parent_is_listed(const struct manifest *manifest, uint64_t count, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return true;
    size_t length = (size_t)(slash - path);
    uint64_t low = 0;
    for (uint64_t high = count; low < high;) {
        uint64_t middle = low + (high - low) / 2;
        const char *known = manifest->entries[middle].path;
        int order = strncmp(known, path, length);
        if (order == 0 && known[length] == '\0') return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* Reads a text of that many bytes with its NUL, and nothing behind it. */
static bool text_is_whole(const char *text, uint32_t bytes) {
    return bytes > 1 && bytes <= PATH_LIMIT && memchr(text, '\0', bytes) == text + bytes - 1;
}

/* Reads one entry and leaves *at behind it. */
static bool decode_entry(const uint8_t **at, const uint8_t *end, struct entry *entry) {
    if (end - *at < ENTRY_BYTES) return false;
    entry->offset = get_u64(*at);
    entry->size = get_u64(*at + 8);
    entry->seconds = (int64_t)get_u64(*at + 16);
    entry->nanoseconds = get_u32(*at + 24);
    uint32_t kind_and_mode = get_u32(*at + 28);
    if ((kind_and_mode & 0xffff) > ENTRY_FILE) return false;
    entry->kind = (enum entry_kind)(kind_and_mode & 0xffff);
    entry->mode = kind_and_mode >> 16 & 0777; /* never set-uid */
    uint32_t path_bytes = get_u32(*at + 32);
    uint32_t target_bytes = get_u32(*at + 36);
    const char *path = (const char *)*at + ENTRY_BYTES;
    const bool is_link = entry->kind == ENTRY_LINK;
    if ((uint64_t)(end - *at - ENTRY_BYTES) < (uint64_t)path_bytes + target_bytes) return false;
    if (!text_is_whole(path, path_bytes) || !path_is_safe(path)) return false;
    if (is_link ? !text_is_whole(path + path_bytes, target_bytes) : target_bytes != 0) return false;
    if (entry->nanoseconds >= SECOND) return false;
    entry->path = strdup(path);
    entry->target = is_link ? strdup(path + path_bytes) : NULL;
    *at += ENTRY_BYTES + path_bytes + target_bytes;
    return entry->path && (!is_link || entry->target);
}

struct decoding {
    uint64_t directories; /* how many entries are */
    uint64_t floor;       /* where the file before ended */
    uint64_t file_bytes;
};

/* Whether the entry may follow those that are in the manifest. */
static bool may_follow(const struct manifest *manifest, struct decoding *decoding,
                       const struct entry *entry) {
    const struct entry *last = manifest->count > 0 ? &manifest->entries[manifest->count - 1] : NULL;
    if (last && last->kind > entry->kind) return false;
    const bool first = !last || last->kind != entry->kind;
    if (entry->kind != ENTRY_FILE) {
        if (entry->size != 0 || entry->offset != 0) return false;
        if (!first && strcmp(last->path, entry->path) >= 0) return false;
    } else if (entry->offset < decoding->floor || entry->offset > manifest->data_size ||
               entry->size > manifest->data_size - entry->offset) {
        return false;
    }
    if (!parent_is_listed(manifest, decoding->directories, entry->path)) return false;
    decoding->directories += entry->kind == ENTRY_DIRECTORY;
    if (entry->kind == ENTRY_FILE) decoding->floor = entry->offset + entry->size;
    decoding->file_bytes += entry->size;
    return true;
}

bool manifest_is_one(const uint8_t *bytes, uint64_t size) {
    return size >= HEADER_BYTES && memcmp(bytes, kMagic, sizeof kMagic) == 0;
}

bool manifest_decode(struct manifest *manifest, const uint8_t *bytes, uint64_t size,
                     struct why *why) {
    if (!manifest_is_one(bytes, size)) return fail(why, "that is no manifest of this version");
    uint64_t count = get_u64(bytes + 8);
    manifest->data_size = get_u64(bytes + 16);
    manifest->disk_bytes = get_u64(bytes + 24);
    const uint8_t *at = bytes + HEADER_BYTES;
    struct decoding decoding = {0};
    for (uint64_t i = 0; i < count; i++) {
        struct entry entry = {0};
        if (!decode_entry(&at, bytes + size, &entry) || !may_follow(manifest, &decoding, &entry)) {
            free(entry.path);
            free(entry.target);
            return fail(why, "the manifest is malformed or has an unsafe path, at entry %llu",
                        (unsigned long long)i);
        }
        if (!manifest_add(manifest, entry)) return fail(why, "out of memory");
    }
    if (manifest->data_size - decoding.file_bytes > (count + 1) * GAP_LIMIT) {
        return fail(why, "the manifest has too much nothing between the files");
    }
    return true;
}

void manifest_free(struct manifest *manifest) {
    for (uint64_t i = 0; i < manifest->count; i++) {
        free(manifest->entries[i].path);
        free(manifest->entries[i].target);
    }
    free(manifest->entries);
    *manifest = (struct manifest){0};
}
