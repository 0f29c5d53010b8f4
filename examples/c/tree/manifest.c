/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "manifest.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static const char kMagic[8] = {'x', 'f', 'e', 'r', 't', 'r', 'e', 'e'};
enum { HEADER_BYTES = 24, FILE_BYTES = 24, PATH_LIMIT = 4096 };
enum { GAP_LIMIT = 64 * 1024 }; /* files begin at page boundaries: the largest page there is */

bool manifest_add(struct manifest *manifest, struct file file) {
    if (manifest->count == manifest->capacity) {
        uint64_t capacity = manifest->capacity ? 2 * manifest->capacity : 1024;
        struct file *grown = realloc(manifest->files, capacity * sizeof *grown);
        if (!grown) return false;
        manifest->files = grown;
        manifest->capacity = capacity;
    }
    manifest->files[manifest->count++] = file;
    return true;
}

uint64_t manifest_file_bytes(const struct manifest *manifest) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < manifest->count; i++)
        bytes += manifest->files[i].size;
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

uint8_t *manifest_encode(const struct manifest *manifest, uint64_t *size) {
    uint64_t total = HEADER_BYTES;
    for (uint64_t i = 0; i < manifest->count; i++)
        total += FILE_BYTES + strlen(manifest->files[i].path) + 1;
    uint8_t *bytes = malloc(total);
    if (!bytes) return NULL;
    uint8_t *at = memcpy(bytes, kMagic, sizeof kMagic);
    at = put_u64(at + sizeof kMagic, manifest->count);
    at = put_u64(at, manifest->data_size);
    for (uint64_t i = 0; i < manifest->count; i++) {
        const struct file *file = &manifest->files[i];
        uint32_t path_bytes = (uint32_t)strlen(file->path) + 1;
        at = put_u64(at, file->offset);
        at = put_u64(at, file->size);
        at = put_u32(at, file->mode);
        at = put_u32(at, path_bytes);
        at = (uint8_t *)memcpy(at, file->path, path_bytes) + path_bytes;
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

/* Reads one file and leaves *at behind it; `floor` is where the file before it ended. */
static bool decode_file(const uint8_t **at, const uint8_t *end, uint64_t floor, uint64_t data_size,
                        struct file *file) {
    if (end - *at < FILE_BYTES) return false;
    file->offset = get_u64(*at);
    file->size = get_u64(*at + 8);
    file->mode = get_u32(*at + 16) & 0777; /* never set-uid */
    uint32_t path_bytes = get_u32(*at + 20);
    const char *path = (const char *)*at + FILE_BYTES;
    if (path_bytes == 0 || path_bytes > PATH_LIMIT ||
        end - *at - FILE_BYTES < (ptrdiff_t)path_bytes)
        return false;
    if (memchr(path, '\0', path_bytes) != path + path_bytes - 1 || !path_is_safe(path))
        return false;
    if (file->offset < floor || file->offset > data_size || file->size > data_size - file->offset)
        return false;
    file->path = strdup(path);
    *at += FILE_BYTES + path_bytes;
    return file->path != NULL;
}

bool manifest_decode(struct manifest *manifest, const uint8_t *bytes, uint64_t size,
                     struct why *why) {
    if (size < HEADER_BYTES || memcmp(bytes, kMagic, sizeof kMagic) != 0)
        return fail(why, "that is no manifest");
    uint64_t count = get_u64(bytes + 8);
    manifest->data_size = get_u64(bytes + 16);
    const uint8_t *at = bytes + HEADER_BYTES;
    uint64_t floor = 0;
    uint64_t bytes_of_files = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct file file;
        if (!decode_file(&at, bytes + size, floor, manifest->data_size, &file)) {
            return fail(why, "the manifest is malformed or has an unsafe path, at file %llu",
                        (unsigned long long)i);
        }
        if (!manifest_add(manifest, file)) {
            free(file.path);
            return fail(why, "out of memory");
        }
        floor = file.offset + file.size;
        bytes_of_files += file.size;
    }
    if (manifest->data_size - bytes_of_files > (count + 1) * GAP_LIMIT) {
        return fail(why, "the manifest has too much nothing between the files");
    }
    return true;
}

void manifest_free(struct manifest *manifest) {
    for (uint64_t i = 0; i < manifest->count; i++)
        free(manifest->files[i].path);
    free(manifest->files);
    *manifest = (struct manifest){0};
}
