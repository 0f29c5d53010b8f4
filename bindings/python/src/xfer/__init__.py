# SPDX-License-Identifier: Apache-2.0
"""libxfer from Python. Today only the raw functions, as `from xfer._xfer import ffi, lib`."""
