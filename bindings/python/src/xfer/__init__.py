# SPDX-License-Identifier: Apache-2.0
"""libxfer from Python: `xfer.aio` for asyncio; `xfer._xfer` has the raw functions."""
