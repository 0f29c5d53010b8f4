/* SPDX-License-Identifier: Apache-2.0 */
#include "log_line.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { kShortId = 8 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char bad[512], taken[512];

/* `noun`, a short id and a colon: what is behind them, or NULL. */
static const char *behind(const char *line, const char *noun) {
    const size_t length = strlen(noun);
    if (strncmp(line, noun, length) != 0) return NULL;
    line += length;
    if (strspn(line, "0123456789abcdef") != kShortId) return NULL;
    return strncmp(line + kShortId, ": ", 2) == 0 ? line + kShortId + 2 : NULL;
}

static bool good(const char *line) {
    static const char refused[] = "xfer_engine_open: "; /* there is no engine */
    if (strncmp(line, refused, sizeof refused - 1) == 0) return true;
    const char *rest = behind(line, "engine ");
    if (rest == NULL) return false;
    if (strstr(rest, "connected to ") == NULL && strstr(rest, "connection ended: ") == NULL)
        return strstr(rest, "engine ") != rest;
    return behind(rest, "peer ") != NULL;
}

void check_line(uint32_t level, const char *line, uint64_t user) {
    (void)level;
    (void)user;
    if (good(line)) return;
    pthread_mutex_lock(&mutex);
    if (bad[0] == '\0') snprintf(bad, sizeof bad, "%s", line);
    pthread_mutex_unlock(&mutex);
}

const char *take_bad_line(void) {
    pthread_mutex_lock(&mutex);
    memcpy(taken, bad, sizeof taken);
    bad[0] = '\0';
    pthread_mutex_unlock(&mutex);
    return taken[0] == '\0' ? NULL : taken;
}
