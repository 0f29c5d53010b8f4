/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XFER_TESTS_API_WITHIN_H
#define XFER_TESTS_API_WITHIN_H

#include <xfer/xfer.h>

/* The options of an operation that has this deadline, in milliseconds. */
#define WITHIN(ms) (&(xfer_op_options_t){.size = sizeof(xfer_op_options_t), .timeout_ms = (ms)})

#endif
