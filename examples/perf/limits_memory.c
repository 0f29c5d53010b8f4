/* SPDX-License-Identifier: Apache-2.0 */
#include <err.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "limits.h"
#include "measure.h"

enum { TURNS = 20000 };

/* The line that travels has its own 128 bytes: the neighbour is prefetched with it. */
struct line {
    _Alignas(128) atomic_uint turn;
    char rest[128 - sizeof(atomic_uint)];
};

static struct line ball;

static void play(unsigned mine, int cpu) {
    pin_to_cpu(cpu);
    for (unsigned turn = mine; turn < 2 * TURNS; turn += 2) {
        while (atomic_load_explicit(&ball.turn, memory_order_acquire) != turn)
            continue;
        atomic_store_explicit(&ball.turn, turn + 1, memory_order_release);
    }
}

static void *odd_player(void *unused) {
    (void)unused;
    play(1, 1);
    return NULL;
}

static void *even_player(void *elapsed) {
    /* The first turns wait until the other thread runs, so the clock starts past them. */
    uint64_t start = now_ns();
    play(0, 0);
    *(double *)elapsed = (double)(now_ns() - start);
    return NULL;
}

double core_to_core_ns(void) {
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return 0;
    double best = 0;
    /* The better of three: a thread that starts late makes one too long, nothing makes one too
     * short. */
    for (int i = 0; i < 3; i++) {
        pthread_t odd;
        pthread_t even;
        double elapsed = 0;
        atomic_store(&ball.turn, 0);
        if (pthread_create(&odd, NULL, odd_player, NULL) != 0) errx(1, "thread");
        if (pthread_create(&even, NULL, even_player, &elapsed) != 0) errx(1, "thread");
        pthread_join(odd, NULL);
        pthread_join(even, NULL);
        double each = elapsed / (2.0 * TURNS);
        if (i == 0 || each < best) best = each;
    }
    return best;
}

double memcpy_rate(uint64_t size, double seconds) {
    uint8_t *from = memory_map(size);
    uint8_t *to = memory_map(size);
    memset(from, 1, size);
    memset(to, 2, size);
    uint64_t copies = 0;
    uint64_t start = now_ns();
    uint64_t elapsed = 0;
    while ((double)elapsed < seconds * 1e9) {
        memcpy(to, from, size);
        /* The compiler must believe that the copy is looked at. */
        __asm__ volatile("" : : "r"(to) : "memory");
        copies++;
        elapsed = now_ns() - start;
    }
    munmap(from, size);
    munmap(to, size);
    return (double)(copies * size) / (double)elapsed;
}
