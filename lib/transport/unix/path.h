// SPDX-License-Identifier: Apache-2.0
// A socket's place in the file system. It outlives a process that was killed, so that the next one
// finds a file at which nobody listens; and it goes with a listener that ends well.
#pragma once

#include <sys/types.h>

#include <string>

#include "util/fd.h"
#include "util/status.h"

namespace xfer::unix_path {

// Which file it is, so that a later one by its name is left alone. Its number is nobody else's for
// as long as the socket is open.
struct File {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
};

// Listens there, by a file with that mode. XFER_EADDRINUSE: somebody does already, or the file is
// no socket.
Result<Fd> listen(const std::string &path, mode_t mode, File &file);
void remove(const File &file);

}  // namespace xfer::unix_path
