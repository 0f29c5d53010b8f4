/* SPDX-License-Identifier: Apache-2.0 */
#ifndef XFER_VERSION_H
#define XFER_VERSION_H

#define XFER_VERSION_MAJOR 0
#define XFER_VERSION_MINOR 1
#define XFER_VERSION_PATCH 0

/* One comparable number: 0x00MMmmpp. xfer_version() tells that of the library that runs. */
#define XFER_VERSION ((XFER_VERSION_MAJOR << 16) | (XFER_VERSION_MINOR << 8) | XFER_VERSION_PATCH)

#endif
