/* SPDX-License-Identifier: Apache-2.0 */
#include "carried.h"

#include <stdlib.h>
#include <string.h>

const char *wanted_way(void) {
    const char *way = getenv("XFER_TEST_CARRIED_BY");
    return way != NULL && way[0] != '\0' ? way : NULL;
}

/* What the engine says of itself; to be freed. NULL: it has ended, or memory lacks. */
static char *describe(xfer_engine_t *engine) {
    uint64_t needed = 0;
    xfer_engine_describe(engine, NULL, 0, &needed);
    for (;;) {
        const uint64_t room = needed + 4096; /* it may have grown meanwhile */
        char *text = malloc(room);
        if (text == NULL) return NULL;
        const xfer_status_t status = xfer_engine_describe(engine, text, room, &needed);
        if (status == XFER_OK) return text;
        free(text);
        if (status != XFER_ENOSPC) return NULL;
    }
}

/* The number of `"bytes": N` in the object of that name between two places of a description. */
static uint64_t bytes_of(const char *begin, const char *end, const char *way) {
    static const char bytes[] = "\"bytes\": ";
    char name[64];
    snprintf(name, sizeof name, "\"%s\": {", way);
    const char *found = strstr(begin, name);
    if (found == NULL || found > end) return 0;
    found = strstr(found, bytes);
    return found == NULL ? 0 : strtoull(found + strlen(bytes), NULL, 10);
}

uint64_t carried_by(xfer_engine_t *engine, const char *way) {
    uint64_t sum = 0;
    char *text = describe(engine);
    const char *at = text;
    while (at != NULL && (at = strstr(at, "\"carried_by\"")) != NULL) {
        const char *end = strstr(at, "\"under_way\""); /* what follows it in a lane */
        if (end != NULL) sum += bytes_of(at, end, way);
        at = end;
    }
    free(text);
    return sum;
}

static uint64_t get_byte(Host *host, xfer_ep_t *ep, const xfer_ref_t *ref, void *byte,
                         const char *way) {
    const xfer_op_options_t quiet = {.size = sizeof quiet, .flags = XFER_FLAG_QUIET};
    const uint64_t user = (uint64_t)(uintptr_t)byte, before = carried_by(host->engine, way);
    assert_status(xfer_get(ep, byte, ref, 0, 1, user, &quiet), XFER_OK);
    assert_status(xfer_ep_flush(ep, NULL, user, NULL), XFER_OK);
    assert_status(wait_event(host, XFER_EVENT_FLUSH, user, kPatience).status, XFER_OK);
    return carried_by(host->engine, way) - before;
}

void wait_way(Host *host, xfer_ep_t *ep, const xfer_ref_t *ref) {
    const char *way = wanted_way();
    const uint64_t end = now_ms() + kPatience;
    if (way == NULL) return;
    uint8_t *byte = test_memory(1);
    while (get_byte(host, ep, ref, byte, way) == 0) {
        if (now_ms() > end) fail_msg("nothing is carried by \"%s\"", way);
        turn(2);
    }
}
