# SPDX-License-Identifier: Apache-2.0
# The headers of the CUDA driver, 11.3 or later, of a toolkit or as pip has them; nothing of it is linked. Sets
# XFER_CUDA_INCLUDE.
if(XFER_CUDA STREQUAL OFF)
    unset(XFER_CUDA_INCLUDE CACHE)
    return()
endif()
file(GLOB of_pip ${PROJECT_SOURCE_DIR}/build/cuda/nvidia/*/include) # tests/install.sh
find_path(XFER_CUDA_INCLUDE cudaTypedefs.h HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda ${of_pip}
          PATH_SUFFIXES include DOC "Where cuda.h and cudaTypedefs.h are")
if(XFER_CUDA_INCLUDE)
    message(STATUS "CUDA: ${XFER_CUDA_INCLUDE}")
elseif(XFER_CUDA STREQUAL AUTO)
    message(STATUS "CUDA: no cudaTypedefs.h, so memory of devices is taken for the host's; "
                   "see XFER_CUDA_INCLUDE in the README")
else()
    message(FATAL_ERROR "XFER_CUDA is ON, and there is no cudaTypedefs.h; see XFER_CUDA_INCLUDE in the README")
endif()
