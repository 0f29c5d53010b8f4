/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOLE = 64 * 1024, BLOCK = 256 * 1024 };

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static bool fail_at(struct why *why, const struct entry *entry) {
    return fail(why, "%s: %s", entry->path, strerror(errno));
}

/* ---- where it begins ---- */

/* Until the end all directories can be written, whatever their modes. */
static bool make_directories(struct writer *writer, struct why *why) {
    for (uint64_t i = 0; i < writer->manifest->count; i++) {
        const struct entry *entry = &writer->manifest->entries[i];
        if (entry->kind != ENTRY_DIRECTORY) break;
        if (mkdirat(writer->directory, entry->path, 0700) == 0) continue;
        if (errno != EEXIST || fchmodat(writer->directory, entry->path, 0700, 0) != 0)
            return fail_at(why, entry);
    }
    return true;
}

/* Skips the files that are there, and says how much there is of the first that is not whole. */
static bool find_position(struct writer *writer, uint64_t *position, struct why *why) {
    const struct manifest *manifest = writer->manifest;
    *position = 0;
    for (; writer->next < manifest->count; writer->next++) {
        const struct entry *entry = &manifest->entries[writer->next];
        if (entry->kind != ENTRY_FILE) continue;
        struct stat info;
        if (fstatat(writer->directory, entry->path, &info, AT_SYMLINK_NOFOLLOW) != 0)
            return errno == ENOENT || fail_at(why, entry);
        if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size > entry->size)
            return fail(why, "%s: somebody else's", entry->path);
        *position = entry->offset + (uint64_t)info.st_size;
        if ((uint64_t)info.st_size < entry->size) return true;
    }
    *position = manifest->data_size;
    return true;
}

bool writer_begin(struct writer *writer, const struct manifest *manifest, int directory,
                  uint64_t *position, struct why *why) {
    *writer = (struct writer){.manifest = manifest, .directory = directory, .file = -1};
    return make_directories(writer, why) && find_position(writer, position, why);
}

/* ---- bytes ---- */

static bool is_zero(const uint8_t *bytes, uint64_t length) {
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

static bool write_all(int file, const uint8_t *bytes, uint64_t length, uint64_t at) {
    while (length > 0) {
        ssize_t written = pwrite(file, bytes, length, (off_t)at);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes += written;
        at += (uint64_t)written;
        length -= (uint64_t)written;
    }
    return true;
}

/* Blocks that are zero become holes. */
static bool write_part(struct writer *writer, const struct entry *file, uint64_t at,
                       const uint8_t *bytes, uint64_t length, struct why *why) {
    const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    if (writer->file < 0) writer->file = openat(writer->directory, file->path, flags, 0600);
    if (writer->file < 0) return fail_at(why, file);
    bool ends_in_hole = false;
    for (uint64_t done = 0; done < length;) {
        uint64_t run = 0;
        while (done + run < length && run < BLOCK) { /* up to the next hole */
            uint64_t piece = smaller(HOLE - (at + done + run) % HOLE, length - done - run);
            ends_in_hole = is_zero(bytes + done + run, piece);
            if (ends_in_hole && run > 0) break;
            run += piece;
            if (ends_in_hole) break;
        }
        if ((!ends_in_hole || !is_zero(bytes + done, run)) &&
            !write_all(writer->file, bytes + done, run, at + done))
            return fail_at(why, file);
        done += run;
    }
    if (ends_in_hole && ftruncate(writer->file, (off_t)(at + length)) != 0)
        return fail_at(why, file);
    return true;
}

static void close_file(struct writer *writer) {
    if (writer->file >= 0) close(writer->file);
    writer->file = -1;
}

/* Writes what there is of every file; the last one may go on in the next bytes. */
bool writer_write(struct writer *writer, uint64_t position, const uint8_t *bytes, uint64_t length,
                  struct why *why) {
    const uint64_t end = position + length;
    for (; writer->next < writer->manifest->count; writer->next++) {
        const struct entry *file = &writer->manifest->entries[writer->next];
        if (file->kind != ENTRY_FILE) continue;
        const uint64_t file_end = file->offset + file->size;
        if (file->size > 0 && file->offset >= end) break;
        const uint64_t from = file->offset < position ? position : file->offset;
        const uint64_t to = smaller(file_end, end);
        const uint64_t here = file->size ? to - from : 0;
        const uint8_t *source = here ? bytes + (from - position) : bytes;
        if (!write_part(writer, file, from - file->offset, source, here, why)) return false;
        if (file_end > end) break;
        close_file(writer);
    }
    return true;
}

/* ---- comparing ---- */

static bool same(int file, const uint8_t *bytes, uint64_t length, uint64_t at) {
    uint8_t block[16 * 1024];
    for (uint64_t done = 0; done < length;) {
        uint64_t wanted = smaller(sizeof block, length - done);
        ssize_t got = pread(file, block, wanted, (off_t)(at + done));
        if (got <= 0 || memcmp(block, bytes + done, (size_t)got) != 0) return false;
        done += (uint64_t)got;
    }
    return true;
}

bool writer_compare(struct writer *writer, uint64_t *next, uint64_t position, const uint8_t *bytes,
                    uint64_t length, struct why *why) {
    const uint64_t end = position + length;
    for (; *next < writer->manifest->count; (*next)++) {
        const struct entry *file = &writer->manifest->entries[*next];
        if (file->kind != ENTRY_FILE || file->size == 0) continue;
        if (file->offset >= end) break;
        const uint64_t from = file->offset < position ? position : file->offset;
        const uint64_t to = smaller(file->offset + file->size, end);
        int fd = openat(writer->directory, file->path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) return fail_at(why, file);
        bool equal = same(fd, bytes + (from - position), to - from, from - file->offset);
        close(fd);
        if (!equal) return fail(why, "%s: differs from the server's", file->path);
        if (file->offset + file->size > end) break;
    }
    return true;
}

/* ---- the end ---- */

static bool make_link(struct writer *writer, const struct entry *link, struct why *why) {
    if (symlinkat(link->target, writer->directory, link->path) == 0) return true;
    char there[4096];
    if (errno != EEXIST) return fail_at(why, link);
    ssize_t length = readlinkat(writer->directory, link->path, there, sizeof there);
    size_t wanted = strlen(link->target);
    if (length == (ssize_t)wanted && memcmp(there, link->target, wanted) == 0) return true;
    return fail(why, "%s: there is something else", link->path);
}

/* From the last entry to the first: a directory is changed after what it has. */
bool writer_finish(struct writer *writer, struct why *why) {
    for (uint64_t i = writer->manifest->count; i-- > 0;) {
        const struct entry *entry = &writer->manifest->entries[i];
        if (entry->kind == ENTRY_LINK) {
            if (!make_link(writer, entry, why)) return false;
            continue;
        }
        const struct timespec times[2] = {
            {.tv_nsec = UTIME_OMIT},
            {.tv_sec = (time_t)entry->seconds, .tv_nsec = (long)entry->nanoseconds}};
        if (utimensat(writer->directory, entry->path, times, AT_SYMLINK_NOFOLLOW) != 0 ||
            fchmodat(writer->directory, entry->path, entry->mode, 0) != 0)
            return fail_at(why, entry);
    }
    return true;
}

void writer_end(struct writer *writer) {
    close_file(writer);
}
