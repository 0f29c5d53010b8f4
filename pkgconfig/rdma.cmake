# SPDX-License-Identifier: Apache-2.0
# The headers of libibverbs, of rdma-core 36 or later; nothing of it is linked, the library is opened at run time. Sets
# XFER_RDMA_INCLUDE.
if(XFER_RDMA STREQUAL OFF)
    unset(XFER_RDMA_INCLUDE CACHE)
    return()
endif()
find_path(XFER_RDMA_INCLUDE infiniband/verbs.h DOC "Where infiniband/verbs.h is")
if(XFER_RDMA_INCLUDE)
    message(STATUS "RDMA: ${XFER_RDMA_INCLUDE}")
elseif(XFER_RDMA STREQUAL AUTO)
    message(STATUS "RDMA: no infiniband/verbs.h (libibverbs-dev), so the RDMA transport is left out")
else()
    message(FATAL_ERROR "XFER_RDMA is ON, and there is no infiniband/verbs.h (libibverbs-dev)")
endif()
