/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between two processes of one host, by the initiator alone. */
#include <err.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "limits.h"
#include "measure.h"

enum { KERNEL_PIECES = 1024 }; /* IOV_MAX */

uint8_t *memfd_map(uint64_t length) {
    int fd = memfd_create("limit", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)length) != 0) err(1, "memfd");
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED) err(1, "memfd of %llu bytes", (unsigned long long)length);
    close(fd);
    return memory;
}

#if defined(__x86_64__)
bool has_streaming_copy(void) {
    return true;
}

static void streaming_copy(uint8_t *to, const uint8_t *from, size_t length) {
    size_t head = (size_t)(-(uintptr_t)to & 15);
    if (head > length) head = length;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + 64 <= length; at += 64) {
        const __m128i *source = (const __m128i *)(const void *)(from + at);
        __m128i *target = (__m128i *)(void *)(to + at);
        __m128i words[4];
        for (int i = 0; i < 4; i++)
            words[i] = _mm_loadu_si128(source + i);
        for (int i = 0; i < 4; i++)
            _mm_stream_si128(target + i, words[i]);
    }
    memcpy(to + at, from + at, length - at);
    _mm_sfence();
}
#else
bool has_streaming_copy(void) {
    return false;
}

static void streaming_copy(uint8_t *to, const uint8_t *from, size_t length) {
    memcpy(to, from, length);
}
#endif

static void copy_block(const struct iovec *to, const struct iovec *from, size_t pieces,
                       bool streaming) {
    for (size_t i = 0; i < pieces; i++) {
        if (streaming)
            streaming_copy(to[i].iov_base, from[i].iov_base, from[i].iov_len);
        else
            memcpy(to[i].iov_base, from[i].iov_base, from[i].iov_len);
    }
    /* The compiler must believe that the copy is looked at. */
    __asm__ volatile("" : : "r"(to) : "memory");
}

static void kernel_block(pid_t owner, const struct iovec *here, const struct iovec *there,
                         size_t pieces, bool get) {
    for (size_t at = 0; at < pieces; at += KERNEL_PIECES) {
        size_t count = pieces - at < KERNEL_PIECES ? pieces - at : KERNEL_PIECES;
        ssize_t wanted = (ssize_t)(count * here[at].iov_len);
        ssize_t moved = (get ? process_vm_readv : process_vm_writev)(owner, here + at, count,
                                                                     there + at, count, 0);
        if (moved < 0) err(1, "process_vm_%s", get ? "readv" : "writev");
        if (moved != wanted) errx(1, "process_vm: moved %zd of %zd bytes", moved, wanted);
    }
}

void near_copy(enum near_way way, pid_t owner, const struct blocks *here,
               const struct blocks *there, const struct plan *plan, double *times) {
    for (uint64_t i = 0; i < plan->count; i++) {
        size_t at = (i % plan->window) * here->per_block;
        const struct iovec *ours = here->pieces + at;
        const struct iovec *theirs = there->pieces + at;
        uint64_t start = times != NULL ? now_ns() : 0;
        if (way == NEAR_KERNEL)
            kernel_block(owner, ours, theirs, here->per_block, plan_reads(plan));
        else
            copy_block(plan_reads(plan) ? ours : theirs, plan_reads(plan) ? theirs : ours,
                       here->per_block, way == NEAR_STREAMING);
        if (times != NULL) times[i] = (double)(now_ns() - start);
    }
}
