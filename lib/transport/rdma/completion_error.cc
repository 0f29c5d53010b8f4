// SPDX-License-Identifier: Apache-2.0
#include "transport/rdma/completion_error.h"

namespace xfer::rdma {

namespace {

const char *words_of(ibv_wc_status status) {
    switch (status) {
    case IBV_WC_LOC_LEN_ERR:
        return "a message is longer than the receive";
    case IBV_WC_LOC_QP_OP_ERR:
        return "the adapter finds a request malformed";
    case IBV_WC_LOC_PROT_ERR:
        return "local memory is not registered for that";
    case IBV_WC_WR_FLUSH_ERR:
        return "flushed after an error";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer's adapter finds a request invalid";
    case IBV_WC_REM_ACCESS_ERR:
        return "remote memory is not registered for that";
    case IBV_WC_REM_OP_ERR:
        return "the peer's adapter can't carry a request out";
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer's adapter does not answer";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer posts no receives";
    default:
        return "a request failed";
    }
}

}  // namespace

Failure completion_failure(ibv_wc_status status, Text where) {
    Failure failure = {XFER_EIO, XFER_ORIGIN_VERBS, status, where + ": " + words_of(status)};
    if (status == IBV_WC_REM_ACCESS_ERR) failure.status = XFER_ESTALE;
    if (status == IBV_WC_RETRY_EXC_ERR) failure.status = XFER_EPEERLOST;
    return failure;
}

}  // namespace xfer::rdma
