/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fetch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "manifest.h"
#include "progress.h"

/* The pack comes in slices: the gets of one slice are all under way at once and land in one buffer,
 * which is then written out to files and used again. So memory is bounded, whatever the size of the
 * tree. */
enum { SLICE = 64 << 20, GET = 4 << 20 };
enum { SLICE_GET = 1 }; /* the user word of these gets, by which they can be canceled */
static const uint64_t kManifestLimit = 1ull << 30;

struct fetch {
    struct session *session;
    xfer_ep_t *ep;
    xfer_ref_t data;
    struct manifest manifest;
    uint8_t *buffer;
    int directory;     /* where files go */
    int file;          /* the one that continues in the next slice, or -1 */
    uint64_t next;     /* the file that is written next */
    const char *label; /* of the progress bar, or NULL */
    struct progress progress;
};

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static bool get_manifest(struct fetch *fetch, struct why *why) {
    xfer_ref_t ref;
    uint64_t size = 0;
    xfer_status_t status = session_lookup(fetch->session, fetch->ep, TREE_MANIFEST, &ref, &size);
    if (status != XFER_OK) return fail_status(why, "no manifest", status);
    if (size > kManifestLimit)
        return fail(why, "a manifest of %llu bytes is too large", (unsigned long long)size);
    uint8_t *bytes = malloc(size ? size : 1);
    if (!bytes) return fail(why, "out of memory");
    xfer_event_t event;
    status = xfer_get(fetch->ep, bytes, &ref, 0, size, 0, NULL);
    if (status == XFER_OK) status = session_wait(fetch->session, XFER_EVENT_GET, &event);
    bool ok = status == XFER_OK ? manifest_decode(&fetch->manifest, bytes, size, why)
                                : fail_status(why, "the manifest did not come", status);
    free(bytes);
    return ok;
}

static bool find_data(struct fetch *fetch, struct why *why) {
    uint64_t size = 0;
    xfer_status_t status =
        session_lookup(fetch->session, fetch->ep, TREE_DATA, &fetch->data, &size);
    if (status != XFER_OK) return fail_status(why, "no data", status);
    return size >= fetch->manifest.data_size ||
           fail(why, "the data is shorter than the manifest says");
}

/* Gets bytes `position` to `position + length` of the pack into the buffer. Returns when no get is
 * under way any more, since until then the buffer is lent. */
static xfer_status_t get_slice(struct fetch *fetch, uint64_t position, uint64_t length) {
    xfer_status_t result = XFER_OK;
    unsigned under_way = 0;
    for (uint64_t at = 0; at < length && result == XFER_OK; at += GET) {
        result = xfer_get(fetch->ep, fetch->buffer + at, &fetch->data, position + at,
                          smaller(GET, length - at), SLICE_GET, NULL);
        if (result == XFER_OK) under_way++;
    }
    while (under_way > 0) {
        xfer_event_t event;
        xfer_status_t status = session_next(fetch->session, &event, XFER_NONE);
        if (status != XFER_OK) return status;
        if (event.kind == XFER_EVENT_GET) {
            under_way--;
            if (fetch->label) progress_set(&fetch->progress, fetch->progress.done + event.bytes);
        } else if (event.kind != XFER_EVENT_PEER_DOWN || event.ep != fetch->ep) {
            continue;
        }
        if (event.status != XFER_OK && result == XFER_OK) {
            result = event.status; /* the others would wait for the peer to come back */
            (void)xfer_cancel(fetch->ep, SLICE_GET);
        }
    }
    return result;
}

/* Makes the directories that `path` lies in, where they are missing. */
static bool make_parents(int directory, const char *path, struct why *why) {
    char parent[4096];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
        if (mkdirat(directory, parent, 0777) != 0 && errno != EEXIST) {
            return fail(why, "%s: %s", parent, strerror(errno));
        }
    }
    return true;
}

static bool write_part(struct fetch *fetch, const struct file *file, const uint8_t *bytes,
                       uint64_t length, struct why *why) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    if (fetch->file < 0) fetch->file = openat(fetch->directory, file->path, flags, file->mode);
    if (fetch->file < 0 && errno == ENOENT) {
        if (!make_parents(fetch->directory, file->path, why)) return false;
        fetch->file = openat(fetch->directory, file->path, flags, file->mode);
    }
    if (fetch->file < 0) return fail(why, "%s: %s", file->path, strerror(errno));
    while (length > 0) {
        ssize_t written = write(fetch->file, bytes, length);
        if (written < 0) return fail(why, "%s: %s", file->path, strerror(errno));
        bytes += written;
        length -= (uint64_t)written;
    }
    return true;
}

/* Writes what the slice holds of every file; the last one may go on in the next slice. */
static bool write_slice(struct fetch *fetch, uint64_t position, uint64_t length, struct why *why) {
    const uint64_t end = position + length;
    for (; fetch->next < fetch->manifest.count; fetch->next++) {
        const struct file *file = &fetch->manifest.files[fetch->next];
        const uint64_t file_end = file->offset + file->size;
        if (file->size > 0 && file->offset >= end) break;
        const uint64_t from = file->offset < position ? position : file->offset;
        const uint64_t to = smaller(file_end, end);
        const uint8_t *bytes = file->size ? fetch->buffer + (from - position) : NULL;
        if (!write_part(fetch, file, bytes, file->size ? to - from : 0, why)) return false;
        if (file_end > end) break;
        close(fetch->file);
        fetch->file = -1;
    }
    return true;
}

static bool has_room(struct fetch *fetch, struct why *why) {
    struct statvfs disk;
    if (fstatvfs(fetch->directory, &disk) != 0) return fail(why, "statvfs: %s", strerror(errno));
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    double needed =
        (double)manifest_file_bytes(&fetch->manifest) + (double)fetch->manifest.count * 4096;
    return room >= needed || fail(why, "no room: %.0f MB are free there, %.0f MB are needed",
                                  room / 1e6, needed / 1e6);
}

static bool copy_all(struct fetch *fetch, struct fetched *fetched, struct why *why) {
    if (fetch->label) progress_begin(&fetch->progress, fetch->label, fetch->manifest.data_size);
    uint64_t position = 0;
    do {
        uint64_t length = smaller(SLICE, fetch->manifest.data_size - position);
        double began = now_seconds();
        xfer_status_t status = get_slice(fetch, position, length);
        double arrived = now_seconds();
        if (status != XFER_OK) return fail_status(why, "the bytes did not come", status);
        if (!write_slice(fetch, position, length, why)) return false;
        fetched->wire_seconds += arrived - began;
        fetched->write_seconds += now_seconds() - arrived;
        position += length;
    } while (position < fetch->manifest.data_size);
    if (fetch->label) progress_end(&fetch->progress);
    return true;
}

static bool fetch_into(struct fetch *fetch, const char *directory, struct fetched *fetched,
                       struct why *why) {
    if (!get_manifest(fetch, why) || !find_data(fetch, why)) return false;
    if (mkdir(directory, 0777) != 0) return fail(why, "%s: %s", directory, strerror(errno));
    fetch->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fetch->directory < 0) return fail(why, "%s: %s", directory, strerror(errno));
    if (!has_room(fetch, why)) return false;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    void *buffer = mmap(NULL, SLICE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (buffer == MAP_FAILED) return fail(why, "out of memory");
    fetch->buffer = buffer;
    return copy_all(fetch, fetched, why);
}

/* There is nothing at `destination`, or an empty directory, which a rename may replace. */
static bool is_free(const char *destination, struct why *why) {
    DIR *directory = opendir(destination);
    if (!directory) return errno == ENOENT || fail(why, "%s: %s", destination, strerror(errno));
    unsigned entries = 0;
    while (readdir(directory))
        entries++;
    closedir(directory);
    return entries <= 2 || fail(why, "%s is not empty", destination);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

bool fetch_tree(struct session *session, xfer_ep_t *ep, const char *destination, const char *label,
                struct fetched *fetched, struct why *why) {
    char part[4096];
    if ((size_t)snprintf(part, sizeof part, "%s.part", destination) >= sizeof part)
        return fail(why, "name too long");
    if (!is_free(destination, why)) return false;
    struct fetch *fetch = calloc(1, sizeof *fetch);
    if (!fetch) return fail(why, "out of memory");
    *fetch =
        (struct fetch){.session = session, .ep = ep, .directory = -1, .file = -1, .label = label};
    *fetched = (struct fetched){0};
    bool ok = fetch_into(fetch, part, fetched, why);
    if (!ok && fetch->directory >= 0) (void)nftw(part, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    fetched->files = fetch->manifest.count;
    fetched->bytes = manifest_file_bytes(&fetch->manifest);
    if (ok && rename(part, destination) != 0)
        ok = fail(why, "%s: %s", destination, strerror(errno));
    if (fetch->buffer) munmap(fetch->buffer, SLICE);
    if (fetch->file >= 0) close(fetch->file);
    if (fetch->directory >= 0) close(fetch->directory);
    manifest_free(&fetch->manifest);
    free(fetch);
    return ok;
}

void fetched_text(const struct fetched *fetched, char *text, size_t cap) {
    double wire = fetched->wire_seconds > 0 ? fetched->wire_seconds : 1e-9;
    snprintf(text, cap,
             "%llu files, %.1f MB: bytes moved in %.2f s at %.2f GB/s, files written in %.2f s",
             (unsigned long long)fetched->files, (double)fetched->bytes / 1e6,
             fetched->wire_seconds, (double)fetched->bytes / wire / 1e9, fetched->write_seconds);
}
