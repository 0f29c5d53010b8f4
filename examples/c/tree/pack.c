/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "pack.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* From this size on a mapping is cheaper than a copy, as long as there are not too many: a process
 * has 65,530 mappings by default (vm.max_map_count). Copies beyond the last size go to a file. */
enum { MAP_FROM = 256 * 1024, MAPPINGS = 32768, IN_MEMORY = 64 << 20 };

static uint64_t page_up(uint64_t bytes) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* ---- what there is ---- */

/* Lists one thing that the walk has met; false when out of memory. */
static bool list_one(struct pack *pack, const FTSENT *found, const char *path) {
    const struct stat *info = found->fts_statp;
    struct entry entry = {.mode = info->st_mode & 0777,
                          .seconds = info->st_mtim.tv_sec,
                          .nanoseconds = (uint32_t)info->st_mtim.tv_nsec};
    char target[4096];
    if (found->fts_info == FTS_D) {
        entry.kind = ENTRY_DIRECTORY;
    } else if (found->fts_info == FTS_F && S_ISREG(info->st_mode)) {
        entry.kind = ENTRY_FILE;
        entry.size = (uint64_t)info->st_size;
        pack->manifest.disk_bytes += (uint64_t)info->st_blocks * 512;
    } else if (found->fts_info == FTS_SL || found->fts_info == FTS_SLNONE) {
        ssize_t length = readlink(found->fts_accpath, target, sizeof target - 1);
        if (length <= 0) {
            pack->skipped++;
            return true;
        }
        target[length] = '\0';
        entry.kind = ENTRY_LINK;
        entry.target = strdup(target);
        if (!entry.target) return false;
    } else {
        pack->skipped++;
        return true;
    }
    entry.path = strdup(path);
    if (!entry.path) {
        free(entry.target);
        return false;
    }
    return manifest_add(&pack->manifest, entry);
}

static bool list_all(struct pack *pack, const char *directory, struct why *why) {
    char *roots[] = {(char *)(uintptr_t)directory, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    if (!walk) return fail(why, "%s: %s", directory, strerror(errno));
    size_t root_length = strlen(directory);
    bool ok = true;
    for (FTSENT *found = fts_read(walk); ok && found; found = fts_read(walk)) {
        if (found->fts_info == FTS_DP || found->fts_level == FTS_ROOTLEVEL) continue;
        const char *path = found->fts_path + root_length;
        while (*path == '/')
            path++;
        ok = list_one(pack, found, path);
    }
    fts_close(walk);
    return ok || fail(why, "out of memory");
}

/* ---- where it lies ---- */

static int in_order(const void *a, const void *b, void *user) {
    const struct entry *left = a;
    const struct entry *right = b;
    const struct pack *pack = user;
    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    bool left_mapped = left->size >= pack->map_from;
    bool right_mapped = right->size >= pack->map_from;
    if (left_mapped != right_mapped) return right_mapped ? -1 : 1;
    return strcmp(left->path, right->path);
}

/* The same tree is always laid out the same way: a fetch that was interrupted goes on from that. */
static void lay_out(struct pack *pack) {
    struct manifest *manifest = &pack->manifest;
    pack->map_from = MAP_FROM;
    for (;; pack->map_from *= 2) {
        uint64_t mapped = 0;
        for (uint64_t i = 0; i < manifest->count; i++)
            mapped += manifest->entries[i].size >= pack->map_from;
        if (mapped <= MAPPINGS) break;
    }
    if (manifest->count > 0)
        qsort_r(manifest->entries, manifest->count, sizeof *manifest->entries, in_order, pack);
    uint64_t end = 0;
    for (uint64_t i = 0; i < manifest->count; i++) {
        struct entry *entry = &manifest->entries[i];
        if (entry->kind != ENTRY_FILE) continue;
        bool mapped = entry->size >= pack->map_from;
        entry->offset = mapped ? page_up(end) : end;
        end = mapped ? page_up(entry->offset + entry->size) : end + entry->size;
        if (!mapped) pack->copied_size = end;
    }
    pack->data_size = page_up(end ? end : 1);
}

/* Puts an unlinked file under the copies: what the kernel needs the memory for it can write out. */
static bool spool(struct pack *pack, struct why *why) {
    const char *directory = getenv("TMPDIR");
    if (!directory || !*directory) directory = "/var/tmp";
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return fail(why, "%s: %s", directory, strerror(errno));
    uint64_t size = page_up(pack->copied_size);
    int error = posix_fallocate(fd, 0, (off_t)size); /* or a full disk would be a SIGBUS */
    if (error == 0 &&
        mmap(pack->data, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
        error = errno;
    close(fd);
    return error == 0 || fail(why, "%s: %s; small files need %.0f MB there, or set TMPDIR",
                              directory, strerror(error), (double)size / 1e6);
}

static bool reserve(struct pack *pack, struct why *why) {
    void *data = mmap(NULL, pack->data_size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return fail(why, "no addresses for %llu bytes of files",
                    (unsigned long long)pack->data_size);
    pack->data = data;
    return pack->copied_size <= IN_MEMORY || spool(pack, why);
}

/* ---- its bytes ---- */

/* Brings the bytes of one file to `at`. Returns how many there are, or -1. */
static int64_t load(const struct pack *pack, int directory_fd, const struct entry *file) {
    uint8_t *at = pack->data + file->offset;
    int fd = openat(directory_fd, file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return -1;
    int64_t loaded = 0;
    struct stat now;
    if (file->size >= pack->map_from) {
        void *mapped = MAP_FAILED;
        if (fstat(fd, &now) == 0 && (uint64_t)now.st_size >= file->size)
            mapped = mmap(at, file->size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
        loaded = mapped == at ? (int64_t)file->size : -1;
    } else {
        while ((uint64_t)loaded < file->size) {
            ssize_t got = read(fd, at + loaded, file->size - (uint64_t)loaded);
            if (got <= 0) break;
            loaded += got;
        }
    }
    close(fd);
    return loaded;
}

/* Loads all files; those that cannot be read leave the list. */
static bool load_all(struct pack *pack, const char *directory, struct why *why) {
    int directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory_fd < 0) return fail(why, "%s: %s", directory, strerror(errno));
    struct manifest *manifest = &pack->manifest;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < manifest->count; i++) {
        struct entry entry = manifest->entries[i];
        if (entry.kind == ENTRY_FILE) {
            int64_t loaded = load(pack, directory_fd, &entry);
            if (loaded < 0) {
                free(entry.path);
                pack->skipped++;
                continue;
            }
            entry.size = (uint64_t)loaded;
        }
        manifest->entries[kept++] = entry;
    }
    manifest->count = kept;
    manifest->data_size = pack->data_size;
    pack->file_bytes = manifest_file_bytes(manifest);
    close(directory_fd);
    return true;
}

bool pack_directory(struct pack *pack, const char *directory, struct why *why) {
    struct stat info;
    if (stat(directory, &info) != 0) return fail(why, "%s: %s", directory, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return fail(why, "%s is not a directory", directory);
    if (!list_all(pack, directory, why)) return false;
    lay_out(pack);
    return reserve(pack, why) && load_all(pack, directory, why);
}

void pack_free(struct pack *pack) {
    if (pack->data) munmap(pack->data, pack->data_size);
    manifest_free(&pack->manifest);
    *pack = (struct pack){0};
}
