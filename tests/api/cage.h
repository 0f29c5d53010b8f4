/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XFER_TESTS_API_CAGE_H
#define XFER_TESTS_API_CAGE_H

#include <stdbool.h>

/* From here on the kernel lets this thread, and the threads and processes that it starts, at
 * nobody's memory: no process_vm_readv, no process_vm_writev. For ever. */
bool cage(void);

#endif
