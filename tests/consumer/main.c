/* SPDX-License-Identifier: Apache-2.0
 * The smallest program that needs the library for something: opens an engine, asks who it is, ends
 * it. */
#include <stdio.h>
#include <xfer/xfer.h>

int main(void) {
    xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *engine = NULL;
    xfer_error_t error;
    xfer_id_t id;

    if (xfer_engine_open(&options, &engine, &error) != XFER_OK) {
        fprintf(stderr, "%s: %s\n", xfer_status_name(error.status), error.message);
        return 1;
    }
    int failed = xfer_engine_id(engine, &id) != XFER_OK || id.incarnation == 0;
    failed |= xfer_engine_join(engine, XFER_NONE) != XFER_OK;
    printf("xfer %s\n", xfer_version_string());
    return failed || xfer_version() != XFER_VERSION;
}
