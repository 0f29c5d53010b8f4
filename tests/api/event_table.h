/* SPDX-License-Identifier: Apache-2.0
 *
 * Which fields each kind of event may set: the table of xfer_event_t in the header. */
#ifndef XFER_TESTS_API_EVENT_TABLE_H
#define XFER_TESTS_API_EVENT_TABLE_H

#include <xfer/xfer.h>

/* The first field that must be zero and is not; NULL: none. */
const char *wrong_field(const xfer_event_t *event);

#endif
