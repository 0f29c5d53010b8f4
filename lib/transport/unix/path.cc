// SPDX-License-Identifier: Apache-2.0
#include "transport/unix/path.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "transport/stream/socket.h"

namespace xfer::unix_path {

namespace {

using stream::Address;

// Of two that find the same stale file only one may take its place, or it would take that of the
// other. The lock is a name in the kernel's own space, which a process can't leave behind.
Result<Fd> lock(const std::string &path) {
    Address name = stream::unix_address("");
    sockaddr_un &un = reinterpret_cast<sockaddr_un &>(name.storage);
    const std::string text = "xfer-listen-" + std::to_string(std::hash<std::string>{}(path));
    text.copy(un.sun_path + 1, sizeof un.sun_path - 1);
    name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd) return os_failure(errno, path + ": socket");
    if (::bind(fd.get(), name.get(), name.size) != 0) return os_failure(errno, path + ": listen");
    return fd;
}

bool is_stale(const std::string &path) {
    struct stat there;
    if (::lstat(path.c_str(), &there) != 0 || !S_ISSOCK(there.st_mode)) return false;
    Result<Fd> fd = stream::start_connect(stream::unix_address(path));
    return !fd && fd.error().native == ECONNREFUSED;
}

}  // namespace

Result<Fd> listen(const std::string &path, mode_t mode, File &file) {
    Result<Fd> locked = lock(path);
    if (!locked) return locked.error();
    const Address address = stream::unix_address(path);
    Result<Fd> fd = stream::listen_at(address, mode);
    if (!fd && fd.error().status == XFER_EADDRINUSE && is_stale(path)) {
        ::unlink(path.c_str());
        fd = stream::listen_at(address, mode);
    }
    if (!fd) {
        Failure why = fd.error();
        if (why.status == XFER_EIO || why.status == XFER_EACCESS) why.status = XFER_EADDR;
        return why;
    }
    struct stat made {};
    if (::lstat(path.c_str(), &made) == 0) file = {path, made.st_dev, made.st_ino};
    // The process's mask has taken bits of it away.
    if ((made.st_mode & 07777) != mode &&
        ::fchmodat(AT_FDCWD, path.c_str(), mode, AT_SYMLINK_NOFOLLOW) != 0) {
        const Failure why = os_failure(errno, path + ": chmod");
        remove(file);
        return why;
    }
    return fd;
}

void remove(const File &file) {
    struct stat there;
    if (file.path.empty() || ::lstat(file.path.c_str(), &there) != 0) return;
    if (there.st_dev == file.device && there.st_ino == file.inode) ::unlink(file.path.c_str());
}

}  // namespace xfer::unix_path
