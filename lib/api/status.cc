// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "xfer/text.h"

namespace {

struct Entry {
    xfer_status_t status;
    const char *name;
    const char *text;
};

#define XFER_ENTRY(status, text) \
    { status, #status, text }

constexpr Entry kEntries[] = {
    XFER_ENTRY(XFER_OK, "success"),
    XFER_ENTRY(XFER_EINVAL, "an argument is wrong"),
    XFER_ENTRY(XFER_EBADHANDLE, "not a live handle of that type"),
    XFER_ENTRY(XFER_E2BIG, "an input struct has fields that this library does not know"),
    XFER_ENTRY(XFER_ENOMEM, "out of memory"),
    XFER_ENTRY(XFER_EAGAIN, "a queue is full now"),
    XFER_ENTRY(XFER_ETOOBIG, "past a limit that waiting does not move"),
    XFER_ENTRY(XFER_EDEGRADED, "the path is being rebuilt"),
    XFER_ENTRY(XFER_EBUSY, "in use by another call or operation"),
    XFER_ENTRY(XFER_ECLOSED, "the handle or its engine is closed"),
    XFER_ENTRY(XFER_EDEADLK, "the call would wait for the thread that makes it"),
    XFER_ENTRY(XFER_EFORKED, "the handle belongs to the parent of this process"),
    XFER_ENTRY(XFER_EUNSUPPORTED, "this build, or this combination of options, has no such thing"),
    XFER_ENTRY(XFER_EEXIST, "the name is taken"),
    XFER_ENTRY(XFER_ENOTFOUND, "nothing of that name or number"),
    XFER_ENTRY(XFER_EACCESS, "the region does not allow that access"),
    XFER_ENTRY(XFER_ERANGE, "outside the region"),
    XFER_ENTRY(XFER_ESTALE, "the ref names a region or an incarnation that is gone"),
    XFER_ENTRY(XFER_ETIMEDOUT, "the deadline passed, or nothing moved for the stall limit"),
    XFER_ENTRY(XFER_ECANCELED, "canceled"),
    XFER_ENTRY(
        XFER_EPEERLOST,
        "the connection, or the lane that carried it, ended while the operation was under way"),
    XFER_ENTRY(XFER_EUNREACHABLE, "no connection could be made"),
    XFER_ENTRY(XFER_ENAME, "the host name has no address"),
    XFER_ENTRY(XFER_EADDRINUSE, "the port, or every port of the range, is taken"),
    XFER_ENTRY(XFER_EADDR, "the address is malformed or not one of this host"),
    XFER_ENTRY(XFER_EAUTH, "the peer could not prove that it has the key"),
    XFER_ENTRY(XFER_EIDENTITY, "another engine answered than the one expected"),
    XFER_ENTRY(XFER_EPROTO, "the peer broke the protocol"),
    XFER_ENTRY(XFER_EVERSION, "no common version or feature"),
    XFER_ENTRY(XFER_ETRUNC, "the message was longer than the buffer"),
    XFER_ENTRY(XFER_ECHECKSUM, "the payload changed on its way"),
    XFER_ENTRY(XFER_EMEMKIND, "no path serves memory of that kind"),
    XFER_ENTRY(XFER_EOVERLOAD, "the peer sheds load"),
    XFER_ENTRY(XFER_EREVOKED, "the grant was revoked or its lease ended"),
    XFER_ENTRY(XFER_ENOFILES, "out of file descriptors"),
    XFER_ENTRY(XFER_EIO, "the system or a device refused"),
    XFER_ENTRY(XFER_ENOSPC, "the buffer is too small"),
    XFER_ENTRY(XFER_EINTERNAL, "a defect of libxfer"),
};

#undef XFER_ENTRY

constexpr size_t kCount = sizeof kEntries / sizeof kEntries[0];

const Entry *find(xfer_status_t status) {
    for (const Entry &entry : kEntries)
        if (entry.status == status) return &entry;
    return nullptr;
}

}  // namespace

const char *xfer_status_name(xfer_status_t status) {
    const Entry *entry = find(status);
    return entry ? entry->name : "XFER_EUNKNOWN";
}

const char *xfer_status_text(xfer_status_t status) {
    const Entry *entry = find(status);
    return entry ? entry->text : "unknown status";
}

xfer_status_t xfer_status_at(uint32_t index, xfer_status_t *status) {
    if (!status) return XFER_EINVAL;
    if (index >= kCount) return XFER_ENOTFOUND;
    *status = kEntries[index].status;
    return XFER_OK;
}
