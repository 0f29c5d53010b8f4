// SPDX-License-Identifier: Apache-2.0
// The 96 bytes of an xfer_ref_t.
#pragma once

#include "wire/hello.h"

namespace xfer {

struct RemoteRegion {
    EngineId id{};
    uint64_t incarnation = 0;
    uint64_t region = 0;
    uint64_t key = 0;
    uint64_t offset = 0;  // of the part that the ref names
    uint64_t length = 0;
    uint32_t generation = 0;
    uint32_t access = 0;
    uint32_t kind = 0;
};

xfer_ref_t encode_ref(const RemoteRegion &region);
// XFER_EINVAL: these bytes are no ref; XFER_EVERSION: of a later version.
Result<RemoteRegion> decode_ref(const xfer_ref_t &ref);

}  // namespace xfer
