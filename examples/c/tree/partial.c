/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "partial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many entries the directory has, or -1. */
static int count_entries(const char *path) {
    DIR *directory = opendir(path);
    if (!directory) return -1;
    int entries = -2; /* "." and ".." */
    while (readdir(directory))
        entries++;
    closedir(directory);
    return entries;
}

/* There is nothing at `destination`, or an empty directory, which a rename may replace. */
static bool is_free(const char *destination, struct why *why) {
    int entries = count_entries(destination);
    if (entries < 0) return errno == ENOENT || fail(why, "%s: %s", destination, strerror(errno));
    return entries == 0 || fail(why, "%s is not empty", destination);
}

/* Whether DEST.part/manifest is of this kind at all, and whether it is the wanted one. */
static bool look_at_manifest(const struct partial *partial, const uint8_t *manifest, uint64_t size,
                             bool *equal) {
    *equal = false;
    int fd = openat(partial->directory, "manifest", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    uint8_t block[16 * 1024];
    uint64_t done = 0;
    bool is_one = false;
    bool differs = false;
    for (ssize_t got; (got = read(fd, block, sizeof block)) > 0; done += (uint64_t)got) {
        if (done == 0) is_one = manifest_is_one(block, (uint64_t)got);
        if (!differs)
            differs = (uint64_t)got > size - done || memcmp(block, manifest + done, (size_t)got);
        if (differs) break;
    }
    close(fd);
    *equal = !differs && done == size;
    return is_one;
}

static bool save_manifest(const struct partial *partial, const uint8_t *manifest, uint64_t size) {
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(partial->directory, "manifest.new", flags, 0600);
    if (fd < 0) return false;
    bool ok = true;
    for (uint64_t done = 0; ok && done < size;) {
        ssize_t written = write(fd, manifest + done, size - done);
        ok = written > 0 || (written < 0 && errno == EINTR);
        if (written > 0) done += (uint64_t)written;
    }
    ok = close(fd) == 0 && ok;
    return ok && renameat(partial->directory, "manifest.new", partial->directory, "manifest") == 0;
}

/* A directory that is not ours to write is made so on the way down. */
static int make_writable(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)where;
    if (kind == FTW_D || kind == FTW_DNR) (void)chmod(path, 0700);
    return 0;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static bool begin_anew(const struct partial *partial, const uint8_t *manifest, uint64_t size,
                       struct why *why) {
    char tree[sizeof partial->path + 8];
    snprintf(tree, sizeof tree, "%s/tree", partial->path);
    if (count_entries(tree) >= 0 || errno != ENOENT) {
        fprintf(stderr, "%s is of another state of the tree and begins anew\n", partial->path);
        (void)nftw(tree, make_writable, 16, FTW_PHYS);
        if (nftw(tree, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
            return fail(why, "%s: %s", tree, strerror(errno));
    }
    return save_manifest(partial, manifest, size) ||
           fail(why, "%s: %s", partial->path, strerror(errno));
}

bool partial_open(struct partial *partial, const char *destination, const uint8_t *manifest,
                  uint64_t size, struct why *why) {
    *partial = (struct partial){.directory = -1, .tree = -1};
    size_t length = strlen(destination);
    while (length > 1 && destination[length - 1] == '/')
        length--;
    if ((size_t)snprintf(partial->path, sizeof partial->path, "%.*s.part", (int)length,
                         destination) >= sizeof partial->path)
        return fail(why, "name too long");
    if (!is_free(destination, why)) return false;
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    if (mkdir(partial->path, 0700) != 0 && errno != EEXIST)
        return fail(why, "%s: %s", partial->path, strerror(errno));
    partial->directory = open(partial->path, flags | O_NOFOLLOW);
    if (partial->directory < 0) return fail(why, "%s: %s", partial->path, strerror(errno));
    if (flock(partial->directory, LOCK_EX | LOCK_NB) != 0)
        return fail(why, "%s: another process is at it", partial->path);
    bool equal;
    bool known = look_at_manifest(partial, manifest, size, &equal);
    /* What was killed before it had a manifest left no other name than this. */
    (void)unlinkat(partial->directory, "manifest.new", 0);
    if (!known && count_entries(partial->path) != 0)
        return fail(why, "%s is in the way: it is no part of a fetch", partial->path);
    if (!equal && !begin_anew(partial, manifest, size, why)) return false;
    if (mkdirat(partial->directory, "tree", 0777) != 0 && errno != EEXIST)
        return fail(why, "%s: %s", partial->path, strerror(errno));
    partial->tree = openat(partial->directory, "tree", flags | O_NOFOLLOW);
    return partial->tree >= 0 || fail(why, "%s: %s", partial->path, strerror(errno));
}

bool partial_complete(struct partial *partial, const char *destination, struct why *why) {
    if (renameat(partial->directory, "tree", AT_FDCWD, destination) != 0)
        return fail(why, "%s: %s", destination, strerror(errno));
    (void)unlinkat(partial->directory, "manifest", 0);
    (void)rmdir(partial->path);
    return true;
}

void partial_discard(struct partial *partial) {
    (void)nftw(partial->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void partial_close(struct partial *partial) {
    if (partial->tree >= 0) close(partial->tree);
    if (partial->directory >= 0) close(partial->directory);
    partial->tree = partial->directory = -1;
}
