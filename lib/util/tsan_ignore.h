// SPDX-License-Identifier: Apache-2.0
// While it lives, ThreadSanitizer does not look at what this thread reads and writes. For the bytes
// that move between two engines of one process, as tests do: TSan follows no data through a socket,
// and takes memory that both see at two addresses for two memories, so that what orders the write
// at one end after the read at the other is lost on it. To suppress its reports is not enough: it
// would make one, at some milliseconds, for each word of a chunk. Elsewhere this is nothing.
#pragma once

#ifdef __SANITIZE_THREAD__
// Of its runtime; see its dynamic annotations.
extern "C" {
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
}
#endif

namespace xfer {

class TsanIgnore {
public:
#ifdef __SANITIZE_THREAD__
    TsanIgnore() {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~TsanIgnore() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
#else
    TsanIgnore() {}
    ~TsanIgnore() {}
#endif
    TsanIgnore(const TsanIgnore &) = delete;
    TsanIgnore &operator=(const TsanIgnore &) = delete;
};

}  // namespace xfer
