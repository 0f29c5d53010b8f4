// SPDX-License-Identifier: Apache-2.0
// Numbers of the header by the names that it gives them. tests/api/text.c reads the header, and
// fails for one that is missing here.
#include "xfer/text.h"

#define XFER_NAME(number) \
    case number:          \
        return #number

const char *xfer_event_name(uint32_t kind) {
    switch (kind) {
        XFER_NAME(XFER_EVENT_PUT);
        XFER_NAME(XFER_EVENT_GET);
        XFER_NAME(XFER_EVENT_BATCH);
        XFER_NAME(XFER_EVENT_SEND);
        XFER_NAME(XFER_EVENT_RECV);
        XFER_NAME(XFER_EVENT_LOOKUP);
        XFER_NAME(XFER_EVENT_PROBE);
        XFER_NAME(XFER_EVENT_CONNECT);
        XFER_NAME(XFER_EVENT_PEER);
        XFER_NAME(XFER_EVENT_PEER_UP);
        XFER_NAME(XFER_EVENT_PEER_DOWN);
        XFER_NAME(XFER_EVENT_REGION_GONE);
        XFER_NAME(XFER_EVENT_NOTIFY);
        XFER_NAME(XFER_EVENT_COUNTER);
        XFER_NAME(XFER_EVENT_REVOKED);
        XFER_NAME(XFER_EVENT_ROOM);
        XFER_NAME(XFER_EVENT_DRAINED);
        XFER_NAME(XFER_EVENT_CLOSED);
        XFER_NAME(XFER_EVENT_NOTIFIED);
        XFER_NAME(XFER_EVENT_ATOMIC);
        XFER_NAME(XFER_EVENT_FLUSH);
        XFER_NAME(XFER_EVENT_STALLED);
    default:
        return "XFER_EVENT_UNKNOWN";
    }
}

const char *xfer_memory_name(uint32_t kind) {
    switch (kind) {
        XFER_NAME(XFER_MEM_HOST);
        XFER_NAME(XFER_MEM_CUDA);
        XFER_NAME(XFER_MEM_HIP);
        XFER_NAME(XFER_MEM_ZE);
        XFER_NAME(XFER_MEM_FILE);
    default:
        return "XFER_MEM_UNKNOWN";
    }
}

const char *xfer_transport_name(uint32_t transport) {
    switch (transport) {
        XFER_NAME(XFER_TRANSPORT_LOOPBACK);
        XFER_NAME(XFER_TRANSPORT_TCP);
        XFER_NAME(XFER_TRANSPORT_SHM);
        XFER_NAME(XFER_TRANSPORT_RDMA);
        XFER_NAME(XFER_TRANSPORT_CUDA);
        XFER_NAME(XFER_TRANSPORT_UNIX);
    default:
        return "XFER_TRANSPORT_UNKNOWN";
    }
}

#undef XFER_NAME
