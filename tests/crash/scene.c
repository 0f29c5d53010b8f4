/* SPDX-License-Identifier: Apache-2.0 */
#include "scene.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- memory ---- */

Shared shared_new(uint64_t length) {
    Shared shared = {.fd = memfd_create("xfer-test", 0), .length = length};
    assert_true(shared.fd >= 0);
    assert_int_equal(ftruncate(shared.fd, (off_t)length), 0);
    shared.memory = shared_map(shared.fd, length);
    assert_non_null(shared.memory);
    return shared;
}

void shared_drop(Shared *shared) {
    munmap(shared->memory, shared->length);
    close(shared->fd);
    *shared = (Shared){.fd = -1};
}

void *shared_map(int fd, uint64_t length) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool all_zero(const void *memory, uint64_t length) {
    const uint8_t *bytes = memory;
    return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

/* ---- chance ---- */

uint64_t first_seed(const char *test) {
    const char *asked = getenv("XFER_TEST_SEED");
    uint64_t seed = asked != NULL ? strtoull(asked, NULL, 10) : now_us() % 1000000007;
    print_message("%s: XFER_TEST_SEED=%llu\n", test, (unsigned long long)seed);
    return seed;
}

uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

int rounds_of(int usual) {
    const char *asked = getenv("XFER_TEST_ROUNDS");
    if (asked != NULL) return atoi(asked);
    return quick() ? (usual + 7) / 8 : usual;
}

/* ---- time ---- */

uint64_t now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void pass_us(uint64_t us) {
    const uint64_t end = now_us() + us;
    while (now_us() < end)
        turn(0);
}

/* ---- what is held ---- */

static int entries(const char *path) {
    DIR *all = opendir(path);
    int count = 0;
    assert_non_null(all);
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all))
        count += entry->d_name[0] != '.';
    closedir(all);
    return count;
}

static int shared_mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "/memfd:") != NULL || strstr(line, "/dev/shm/") != NULL;
    fclose(maps);
    return count;
}

Holdings holdings(void) {
    return (Holdings){entries("/proc/self/fd"), entries("/proc/self/task"), shared_mappings(),
                      entries("/dev/shm")};
}

void assert_holdings(Holdings before) {
    const uint64_t end = now_ms() + kPatience;
    for (Holdings now = holdings();
         now.descriptors > before.descriptors || now.threads > before.threads; now = holdings()) {
        if (now_ms() > end)
            fail_msg("%d descriptors and %d threads, not %d and %d", now.descriptors, now.threads,
                     before.descriptors, before.threads);
        turn(5);
    }
}

/* ---- figures ---- */

void times_add(Times *times, uint64_t us) {
    const int room = (int)(sizeof times->ms / sizeof times->ms[0]);
    if (times->count < room) times->ms[times->count++] = (double)us / 1000;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double times_at(Times *times, double part) {
    assert_true(times->count > 0);
    qsort(times->ms, (size_t)times->count, sizeof times->ms[0], ascending);
    return times->ms[(int)(part * (times->count - 1))];
}

void times_print(Times *times, const char *what, const char *target) {
    print_message("figure: %s: median %.2f ms, longest %.2f ms of %d (%s)\n", what,
                  times_at(times, 0.5), times_at(times, 1), times->count, target);
}
