/* SPDX-License-Identifier: Apache-2.0
 * The header needs nothing before it. */
#include <xfer/xfer.h>

/* It may be included twice. */
#include <xfer/xfer.h>

int main(void) {
    return xfer_version() == XFER_VERSION ? 0 : 1;
}
