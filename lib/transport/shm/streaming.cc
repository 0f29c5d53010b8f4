// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/streaming.h"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace xfer::shm {

#ifdef __SSE2__

void streaming_copy(uint8_t *to, const uint8_t *from, size_t length) {
    const size_t head = -reinterpret_cast<uintptr_t>(to) % sizeof(__m128i);
    if (length < head + 64) {
        std::memcpy(to, from, length);
        return;
    }
    std::memcpy(to, from, head);
    size_t at = head;
    for (; at + 64 <= length; at += 64) {
        const auto *source = reinterpret_cast<const __m128i *>(from + at);
        auto *target = reinterpret_cast<__m128i *>(to + at);
        const __m128i words[] = {_mm_loadu_si128(source), _mm_loadu_si128(source + 1),
                                 _mm_loadu_si128(source + 2), _mm_loadu_si128(source + 3)};
        for (int i = 0; i < 4; ++i)
            _mm_stream_si128(target + i, words[i]);
    }
    std::memcpy(to + at, from + at, length - at);
    _mm_sfence();  // streaming stores are ordered with nothing else
}

#else

void streaming_copy(uint8_t *to, const uint8_t *from, size_t length) {
    std::memcpy(to, from, length);
}

#endif

}  // namespace xfer::shm
