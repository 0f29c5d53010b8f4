/* SPDX-License-Identifier: Apache-2.0
 * Nor does the one of texts. */
#include <xfer/text.h>

/* It may be included twice, and beside the other. */
#include <xfer/xfer.h>

#include <xfer/text.h>

int main(void) {
    return xfer_event_name(XFER_EVENT_PUT) == NULL;
}
