// SPDX-License-Identifier: Apache-2.0
#include "xfer/xfer.h"

#define XFER_TEXT_OF(number) #number
#define XFER_TEXT(number) XFER_TEXT_OF(number)

uint32_t xfer_version(void) {
    return XFER_VERSION;
}

const char *xfer_version_string(void) {
    return XFER_TEXT(XFER_VERSION_MAJOR) "." XFER_TEXT(XFER_VERSION_MINOR) "." XFER_TEXT(
        XFER_VERSION_PATCH);
}
