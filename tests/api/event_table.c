/* SPDX-License-Identifier: Apache-2.0 */
#include "event_table.h"

#include <stddef.h>
#include <string.h>

enum {
    kUser = 1,
    kEp = 2,
    kObject = 4,
    kBytes = 8,
    kFlags = 16,
    kTag = 32,
    kIndex = 64,
    kData = 128
};

typedef struct Row {
    uint32_t ok, failed; /* what may be set with XFER_OK, and with another status */
} Row;

static const Row rows[] = {
    [XFER_EVENT_PUT] = {kUser | kEp | kBytes | kFlags, kUser | kEp | kBytes | kFlags | kData},
    [XFER_EVENT_GET] = {kUser | kEp | kBytes | kFlags, kUser | kEp | kBytes | kFlags | kData},
    [XFER_EVENT_BATCH] = {kUser | kEp | kBytes | kFlags | kObject,
                          kUser | kEp | kBytes | kFlags | kObject | kIndex},
    [XFER_EVENT_SEND] = {kUser | kEp | kBytes | kFlags | kTag,
                         kUser | kEp | kBytes | kFlags | kTag | kData},
    [XFER_EVENT_RECV] = {kUser | kEp | kBytes | kFlags | kTag | kIndex | kData,
                         kUser | kEp | kBytes | kFlags | kTag | kIndex | kData},
    [XFER_EVENT_LOOKUP] = {kUser | kEp | kFlags | kData, kUser | kEp | kFlags | kData},
    [XFER_EVENT_PROBE] = {kUser | kEp | kFlags | kBytes, kUser | kEp | kFlags | kData},
    [XFER_EVENT_CONNECT] = {kUser | kEp | kFlags, kUser | kEp | kFlags | kData},
    [XFER_EVENT_PEER] = {kUser | kEp | kTag, 0},
    [XFER_EVENT_PEER_UP] = {kUser | kEp | kFlags | kData, 0},
    [XFER_EVENT_PEER_DOWN] = {0, kUser | kEp | kData},
    [XFER_EVENT_REGION_GONE] = {kUser | kEp | kData, 0},
    [XFER_EVENT_NOTIFY] = {kUser | kEp | kTag | kData, kUser | kEp | kTag},
    [XFER_EVENT_COUNTER] = {kUser | kObject | kTag | kIndex,
                            kUser | kObject | kTag | kIndex | kData},
    [XFER_EVENT_REVOKED] = {kUser | kObject | kTag, kUser | kObject | kTag},
    [XFER_EVENT_ROOM] = {kUser | kEp, 0},
    [XFER_EVENT_DRAINED] = {kUser | kObject, kUser | kObject},
    [XFER_EVENT_CLOSED] = {kUser | kEp | kObject, kUser | kEp | kObject},
    [XFER_EVENT_ATOMIC] = {kUser | kEp | kBytes | kFlags | kIndex,
                           kUser | kEp | kBytes | kFlags | kData},
    [XFER_EVENT_FLUSH] = {kUser | kEp | kFlags, kUser | kEp | kFlags | kData},
    [XFER_EVENT_STALLED] = {kUser | kTag | kIndex | kBytes, kUser | kTag | kIndex | kBytes | kData},
    [XFER_EVENT_NOTIFIED] = {kUser | kEp | kFlags, kUser | kEp | kFlags | kData},
};

/* A failed one tells why, as text; but of RECV data is the sender. */
static int is_text(const xfer_event_t *event) {
    if (event->data == NULL || event->status == XFER_OK || event->kind == XFER_EVENT_RECV) return 1;
    const char *text = event->data;
    return event->data_length > 0 && text[event->data_length] == '\0' &&
           strlen(text) == event->data_length;
}

const char *wrong_field(const xfer_event_t *event) {
    if (event->kind == 0 || event->kind >= sizeof rows / sizeof *rows) return "kind";
    const int ok = event->status == XFER_OK;
    const uint32_t may = ok ? rows[event->kind].ok : rows[event->kind].failed;
    if (!may) return "status";
    const struct {
        const char *name;
        uint64_t value;
        uint32_t bit;
    } fields[] = {
        {"user", event->user, kUser},
        {"ep", event->ep != NULL, kEp},
        {"object", event->object != NULL, kObject},
        {"bytes", event->bytes, kBytes},
        {"flags", event->flags, kFlags},
        {"tag", event->tag, kTag},
        {"index", event->index, kIndex},
        {"data", event->data != NULL, kData},
        {"data_length", event->data_length, kData},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value && !(may & fields[i].bit)) return fields[i].name;
    if (!is_text(event)) return "data";
    if (ok && event->origin) return "origin";
    if (ok && event->native_code) return "native_code";
    if (event->reserved0) return "reserved0";
    for (int i = 0; i < 4; i++)
        if (event->reserved[i]) return "reserved";
    return NULL;
}
