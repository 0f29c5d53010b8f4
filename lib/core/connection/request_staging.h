// SPDX-License-Identifier: Apache-2.0
// What a peer asks for in memory of a device, its path sees in bounce memory: a put lands there,
// and is copied on before it is answered; a get is copied there first (design/0065).
//
// A put has a slot, or else memory of its own: it is on its way already, and must not keep what is
// behind it waiting. It leaves some slots to gets, which wait for one, in the order in which they
// came.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <vector>

#include "device/copier.h"
#include "transport/path.h"
#include "util/list.h"

namespace xfer {

class Connection;
class Rail;
struct InRequestStaging;  // all that there are

class RequestStaging final : Task {
public:
    RequestStaging(Loop &loop, Copier &copier);
    ~RequestStaging();
    void stop();  // with its loop; nothing is under way

    // Of a request for `ranges` of that memory, which are where its path finds it from then on.
    // Null: host memory lacks, or too much of it is held (kMaxOwnBounce).
    StagedRequest *stage(Rail &rail, Dir dir, const Access &access, const Memory &memory,
                         std::vector<iovec> &ranges);
    // How many copies of it go on: ConnectionSink::on_quiesced() follows for each.
    uint32_t retire(const Connection &connection, Target target);
    // The same of puts that belong to it: on_discarded() does.
    uint32_t discard(const Connection &connection, NotificationId notification);

private:
    class Request;

    bool may_enter(const Request &request) const;
    void wait(Request &request);
    void run() override;

    Loop &loop_;
    Copier &copier_;
    List<Request, InRequestStaging> requests_;
    List<Request> waiting_;
    uint64_t own_bytes_ = 0;  // of puts that have no slot
};

}  // namespace xfer
