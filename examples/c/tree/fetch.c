/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "partial.h"
#include "progress.h"
#include "writer.h"

/* The pack comes in slices: the gets of one slice are all under way at once and land in one buffer,
 * which is then written out to files and used again. So memory is bounded, whatever the size of the
 * tree. */
enum { SLICE = 64 << 20, GET = 4 << 20 };
enum { SLICE_GET = 1 }; /* the user word of these gets, by which they can be canceled */
enum { WAKE_MS = 200 }; /* so that Ctrl-C is noticed */
static const uint64_t kManifestLimit = 1ull << 30;

struct fetch {
    struct session *session;
    xfer_ep_t *ep;
    xfer_ref_t data;
    uint8_t *manifest_bytes;
    uint64_t manifest_size;
    struct manifest manifest;
    struct partial partial;
    struct writer writer;
    uint8_t *buffer;
    const struct fetch_options *options;
    struct progress progress;
    bool resumable; /* what is there is right as far as it goes */
};

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Gets bytes `position` to `position + length` of a region. Returns when no get is under way any
 * more, since until then the buffer is lent. */
static xfer_status_t get_range(struct fetch *fetch, const xfer_ref_t *ref, uint64_t position,
                               uint8_t *buffer, uint64_t length, struct progress *progress) {
    xfer_status_t result = XFER_OK;
    uint64_t asked = 0;
    unsigned under_way = 0;
    while (under_way > 0 || (asked < length && result == XFER_OK)) {
        while (asked < length && result == XFER_OK && under_way < SLICE / GET) {
            result = xfer_get(fetch->ep, buffer + asked, ref, position + asked,
                              smaller(GET, length - asked), SLICE_GET, NULL);
            if (result == XFER_OK) under_way++;
            asked += GET;
        }
        if (under_way == 0) break;
        xfer_event_t event;
        xfer_status_t status = session_next(fetch->session, &event, WAKE_MS);
        if (status != XFER_OK) return status;
        if (event.kind == XFER_EVENT_GET) {
            under_way--;
            if (progress) progress_set(progress, progress->done + event.bytes);
        } else if (event.kind != XFER_EVENT_PEER_DOWN || event.ep != fetch->ep) {
            event.status = session_stopped() ? XFER_ECANCELED : XFER_OK;
        }
        if (event.status != XFER_OK && result == XFER_OK) {
            result = event.status; /* the others would wait for the peer to come back */
            (void)xfer_cancel(fetch->session->engine, fetch->ep, SLICE_GET, UINT64_MAX);
        }
    }
    return result;
}

static bool fail_get(struct why *why, const char *what, xfer_status_t status) {
    return session_stopped() ? fail(why, "interrupted") : fail_status(why, what, status);
}

static bool get_manifest(struct fetch *fetch, struct why *why) {
    xfer_ref_t ref;
    uint64_t size = 0;
    xfer_status_t status = session_lookup(fetch->session, fetch->ep, TREE_MANIFEST, &ref, &size);
    if (status != XFER_OK) return fail_status(why, "no manifest", status);
    if (size > kManifestLimit)
        return fail(why, "a manifest of %llu bytes is too large", (unsigned long long)size);
    fetch->manifest_bytes = malloc(size ? size : 1);
    if (!fetch->manifest_bytes) return fail(why, "out of memory");
    fetch->manifest_size = size;
    status = get_range(fetch, &ref, 0, fetch->manifest_bytes, size, NULL);
    if (status != XFER_OK) return fail_get(why, "the manifest did not come", status);
    return manifest_decode(&fetch->manifest, fetch->manifest_bytes, size, why);
}

static bool find_data(struct fetch *fetch, struct why *why) {
    uint64_t size = 0;
    xfer_status_t status =
        session_lookup(fetch->session, fetch->ep, TREE_DATA, &fetch->data, &size);
    if (status != XFER_OK) return fail_status(why, "no data", status);
    return size >= fetch->manifest.data_size ||
           fail(why, "the data is shorter than the manifest says");
}

/* Holes need no room, so what the files take at the server counts if it is less. */
static bool has_room(struct fetch *fetch, uint64_t position, struct why *why) {
    struct statvfs disk;
    if (fstatvfs(fetch->partial.tree, &disk) != 0) return fail(why, "statvfs: %s", strerror(errno));
    const struct manifest *manifest = &fetch->manifest;
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    double bytes = (double)smaller(manifest_file_bytes(manifest), manifest->disk_bytes);
    double needed =
        bytes - (double)position + (double)(manifest->count - fetch->writer.next) * 4096;
    return room >= needed || fail(why, "no room: %.0f MB are free there, %.0f MB are needed",
                                  room / 1e6, needed / 1e6);
}

static bool copy_all(struct fetch *fetch, uint64_t position, struct fetched *fetched,
                     struct why *why) {
    struct progress *progress = fetch->options->label ? &fetch->progress : NULL;
    const uint64_t size = fetch->manifest.data_size;
    if (progress) {
        progress_begin(progress, fetch->options->label, size - position);
        if (position > 0) fprintf(stderr, "%.1f MB were there already\n", (double)position / 1e6);
    }
    do { /* once at least: files without bytes are to be made */
        uint64_t length = smaller(SLICE, size - position);
        double began = now_seconds();
        xfer_status_t status =
            get_range(fetch, &fetch->data, position, fetch->buffer, length, progress);
        double arrived = now_seconds();
        if (status != XFER_OK) return fail_get(why, "the bytes did not come", status);
        if (!writer_write(&fetch->writer, position, fetch->buffer, length, why)) return false;
        fetched->wire_seconds += arrived - began;
        fetched->write_seconds += now_seconds() - arrived;
        fetched->moved += length;
        position += length;
        if (session_stopped() && position < size) return fail(why, "interrupted");
    } while (position < size);
    if (progress) progress_end(progress);
    return true;
}

/* What was written is read back and compared with what the peer lends now. */
static bool verify_all(struct fetch *fetch, struct why *why) {
    uint64_t next = 0;
    for (uint64_t position = 0; position < fetch->manifest.data_size;) {
        uint64_t length = smaller(SLICE, fetch->manifest.data_size - position);
        xfer_status_t status =
            get_range(fetch, &fetch->data, position, fetch->buffer, length, NULL);
        if (status != XFER_OK) return fail_get(why, "the bytes to compare did not come", status);
        if (!writer_compare(&fetch->writer, &next, position, fetch->buffer, length, why)) {
            fetch->resumable = false;
            partial_discard(&fetch->partial);
            return false;
        }
        position += length;
    }
    return true;
}

static bool fetch_into(struct fetch *fetch, const char *destination, struct fetched *fetched,
                       struct why *why) {
    if (!get_manifest(fetch, why) || !find_data(fetch, why)) return false;
    if (!partial_open(&fetch->partial, destination, fetch->manifest_bytes, fetch->manifest_size,
                      why))
        return false;
    uint64_t position = 0;
    if (!writer_begin(&fetch->writer, &fetch->manifest, fetch->partial.tree, &position, why) ||
        !has_room(fetch, position, why))
        return false;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    void *buffer = mmap(NULL, SLICE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (buffer == MAP_FAILED) return fail(why, "out of memory");
    fetch->buffer = buffer;
    fetch->resumable = true;
    if (!copy_all(fetch, position, fetched, why)) return false;
    if (fetch->options->verify && !verify_all(fetch, why)) return false;
    fetched->verified = fetch->options->verify;
    return writer_finish(&fetch->writer, why) &&
           partial_complete(&fetch->partial, destination, why);
}

bool fetch_tree(struct session *session, xfer_ep_t *ep, const char *destination,
                const struct fetch_options *options, struct fetched *fetched, struct why *why) {
    struct fetch *fetch = calloc(1, sizeof *fetch);
    if (!fetch) return fail(why, "out of memory");
    fetch->session = session;
    fetch->ep = ep;
    fetch->options = options;
    fetch->partial.directory = fetch->partial.tree = fetch->writer.file = -1;
    *fetched = (struct fetched){0};
    bool ok = fetch_into(fetch, destination, fetched, why);
    if (!ok && fetch->resumable) {
        size_t length = strlen(why->text);
        snprintf(why->text + length, sizeof why->text - length,
                 "; what has come is in %.200s, and the same command goes on from there",
                 fetch->partial.path);
    }
    fetched->files = manifest_file_count(&fetch->manifest);
    fetched->bytes = manifest_file_bytes(&fetch->manifest);
    if (fetch->buffer) munmap(fetch->buffer, SLICE);
    writer_end(&fetch->writer);
    partial_close(&fetch->partial);
    manifest_free(&fetch->manifest);
    free(fetch->manifest_bytes);
    free(fetch);
    return ok;
}

static double per_second(uint64_t bytes, double seconds) {
    return (double)bytes / (seconds > 0 ? seconds : 1e-9) / 1e9;
}

void fetched_text(const struct fetched *fetched, char *text, size_t cap) {
    double seconds = fetched->wire_seconds + fetched->write_seconds;
    char earlier[64] = "";
    if (fetched->moved < fetched->bytes)
        snprintf(earlier, sizeof earlier, ", of which %.1f MB came now",
                 (double)fetched->moved / 1e6);
    snprintf(text, cap,
             "%llu files, %.1f MB%s: in %.2f s at %.2f GB/s with the files written (%.2f s); "
             "bytes moved in %.2f s at %.2f GB/s%s",
             (unsigned long long)fetched->files, (double)fetched->bytes / 1e6, earlier, seconds,
             per_second(fetched->moved, seconds), fetched->write_seconds, fetched->wire_seconds,
             per_second(fetched->moved, fetched->wire_seconds),
             fetched->verified ? "; verified" : "");
}
