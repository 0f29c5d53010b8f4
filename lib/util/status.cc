// SPDX-License-Identifier: Apache-2.0
#include "util/status.h"

#include <cerrno>
#include <cstring>

namespace xfer {

Status status_of_errno(int error) {
    switch (error) {
    case 0:
        return XFER_OK;
    case ENOMEM:
    case ENOBUFS:
        return XFER_ENOMEM;
    case EMFILE:
    case ENFILE:
        return XFER_ENOFILES;
    case EADDRINUSE:
        return XFER_EADDRINUSE;
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
        return XFER_EADDR;
    case EACCES:
    case EPERM:
        return XFER_EACCESS;
    case ECONNREFUSED:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
        return XFER_EUNREACHABLE;
    case ECONNRESET:
    case EPIPE:
    case ECONNABORTED:
    case ENOTCONN:
        return XFER_EPEERLOST;
    case ETIMEDOUT:
        return XFER_EUNREACHABLE;
    default:
        return XFER_EIO;
    }
}

Failure os_failure(int error, Text what) {
    char room[128];
    const char *words = ::strerror_r(error, room, sizeof room);  // GNU's: may be a text of its own
    return {status_of_errno(error), XFER_ORIGIN_OS, error, what + ": " + words};
}

}  // namespace xfer
