// SPDX-License-Identifier: Apache-2.0

use std::mem::size_of;
use std::time::Duration;
use xfer_sys as sys;

/// What the operations of one view of an engine or endpoint have in common.
#[derive(Clone, Copy, Default)]
pub(crate) struct Call {
    pub timeout_ms: u32,
    pub trace: u64,
    pub group: u16,
}

impl Call {
    pub fn options(&self, flags: u32) -> sys::xfer_op_options_t {
        sys::xfer_op_options_t {
            size: size_of::<sys::xfer_op_options_t>() as u32,
            timeout_ms: self.timeout_ms,
            flags,
            trace: self.trace,
            ..Default::default()
        }
    }
}

/// A number of milliseconds that is neither the default nor none.
pub(crate) fn millis(limit: Duration) -> u32 {
    limit.as_millis().clamp(1, u128::from(sys::XFER_NONE - 1)) as u32
}

/// The same engine or endpoint, whose operations are begun otherwise.
macro_rules! views {
    ($type:ident) => {
        impl $type {
            /// The same, for operations that have such a deadline: in milliseconds, 1 at least,
            /// counted from the call of each. At it they end with `ETIMEDOUT`.
            #[must_use]
            pub fn within(&self, limit: Duration) -> Self {
                let mut view = self.clone();
                view.call.timeout_ms = $crate::call::millis(limit);
                view
            }

            /// The same, for operations without a deadline, whatever the engine's is; the stall
            /// limit stays.
            #[must_use]
            pub fn without_deadline(&self) -> Self {
                let mut view = self.clone();
                view.call.timeout_ms = xfer_sys::XFER_NONE;
                view
            }

            /// The same, for operations that logs show with this number.
            #[must_use]
            pub fn traced(&self, trace: u64) -> Self {
                let mut view = self.clone();
                view.call.trace = trace;
                view
            }

            /// The same, for operations that one
            /// [`cancel_group`](crate::Engine::cancel_group) ends, as those of a whole request. The
            /// number may be used again when nothing of its group is under way; what is in no group
            /// is in group 0.
            ///
            /// There are 65,536: the other 48 bits of an event's word are never the same twice.
            #[must_use]
            pub fn grouped(&self, group: u16) -> Self {
                let mut view = self.clone();
                view.call.group = group;
                view
            }
        }
    };
}
pub(crate) use views;
