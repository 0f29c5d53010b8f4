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

/* From this size on a mapping is cheaper than a copy. */
enum { MAP_FROM = 256 * 1024 };

static uint64_t page_up(uint64_t bytes) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

/* Lists the regular files below `directory` and gives each its place. */
static bool lay_out(struct pack *pack, const char *directory, struct why *why) {
    char *roots[] = {(char *)(uintptr_t)directory, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    if (!walk) return fail(why, "%s: %s", directory, strerror(errno));
    size_t root_length = strlen(directory);
    bool ok = true;
    uint64_t end = 0;
    for (FTSENT *entry = fts_read(walk); ok && entry; entry = fts_read(walk)) {
        if (entry->fts_info == FTS_D || entry->fts_info == FTS_DP) continue;
        if (entry->fts_info != FTS_F) {
            pack->skipped++;
            continue;
        }
        const char *path = entry->fts_path + root_length;
        while (*path == '/')
            path++;
        struct file file = {.size = (uint64_t)entry->fts_statp->st_size,
                            .mode = entry->fts_statp->st_mode & 0777,
                            .path = strdup(path)};
        bool mapped = file.size >= MAP_FROM;
        file.offset = mapped ? page_up(end) : end;
        end = mapped ? page_up(file.offset + file.size) : end + file.size;
        ok = file.path && manifest_add(&pack->manifest, file);
    }
    fts_close(walk);
    pack->data_size = page_up(end ? end : 1);
    return ok || fail(why, "out of memory");
}

/* Brings the bytes of one file to `at`. Returns how many there are, or -1. */
static int64_t load(int directory_fd, const struct file *file, uint8_t *at) {
    int fd = openat(directory_fd, file->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return -1;
    int64_t loaded = 0;
    struct stat now;
    if (file->size >= MAP_FROM && fstat(fd, &now) == 0 && (uint64_t)now.st_size >= file->size) {
        void *mapped =
            mmap(at, file->size, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_POPULATE, fd, 0);
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
        struct file file = manifest->files[i];
        int64_t loaded = load(directory_fd, &file, pack->data + file.offset);
        if (loaded < 0) {
            free(file.path);
            pack->skipped++;
            continue;
        }
        file.size = (uint64_t)loaded;
        manifest->files[kept++] = file;
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
    if (!lay_out(pack, directory, why)) return false;
    pack->data = mmap(NULL, pack->data_size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pack->data == MAP_FAILED) {
        pack->data = NULL;
        return fail(why, "no memory for %llu bytes of files", (unsigned long long)pack->data_size);
    }
    return load_all(pack, directory, why);
}

void pack_free(struct pack *pack) {
    if (pack->data) munmap(pack->data, pack->data_size);
    manifest_free(&pack->manifest);
    *pack = (struct pack){0};
}
