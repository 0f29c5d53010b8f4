// SPDX-License-Identifier: Apache-2.0

use crate::call::millis;
use crate::endpoint::done;
use crate::handle::Handle;
use crate::operation::Operation;
use crate::reference::Ref;
use crate::region::{Access, Region};
use crate::{Error, Result};
use std::mem::size_of;
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::Duration;
use xfer_sys as sys;

/// What a grant lends.
#[derive(Clone, Debug)]
pub struct GrantOptions {
    /// What its holders may do, whatever the region's own access is.
    pub access: Access,
    /// In the region.
    pub range: Range<u64>,
    /// It ends by itself unless it is renewed; `None`: never.
    pub lease: Option<Duration>,
}

/// A part of a region, lent with its own access and lease. Dropped, it is revoked.
pub struct Grant {
    name: Ref,
    region: Weak<Handle<sys::xfer_region_t>>,
    ended: Operation<Result<()>>,
}

impl Region {
    /// A grant of a part of it.
    ///
    /// # Errors
    /// `EINVAL` (no access, an empty range; with atomics a start that is not divisible by 8),
    /// `ERANGE`, `EMEMKIND`, `ETOOBIG`, `ECLOSED`.
    pub fn grant(&self, options: &GrantOptions) -> Result<Grant> {
        let Range { start, end } = options.range;
        let mut raw = sys::xfer_grant_options_t {
            size: size_of::<sys::xfer_grant_options_t>() as u32,
            access: options.access.0,
            offset: start,
            length: end.checked_sub(start).ok_or_else(|| Error::of(sys::XFER_EINVAL))?,
            lease_ms: options.lease.map_or(sys::XFER_NONE, millis),
            ..Default::default()
        };
        let mut name = sys::xfer_ref_t::default();
        let engine = &self.engine.inner;
        let ended = Operation::begin(engine, 0, Box::new(()), done, |word, detail| {
            raw.user = word;
            // SAFETY: all are live during the call.
            self.handle
                .call(|region| unsafe { sys::xfer_region_grant(region, &raw, &mut name, detail) })
        })
        .accepted()?;
        let region = Arc::downgrade(&self.handle);
        Ok(Grant { name: Ref::from_bytes(name.bytes), region, ended })
    }
}

impl Grant {
    /// The ref, to be sent to its holders.
    pub fn name(&self) -> Ref {
        self.name
    }

    fn call(
        &self,
        call: unsafe extern "C" fn(*mut sys::xfer_region_t, *const sys::xfer_ref_t) -> i32,
    ) -> Result<()> {
        let Some(region) = self.region.upgrade() else {
            return Err(Error::of(sys::XFER_ECLOSED));
        };
        let name = self.name.raw();
        // SAFETY: both are live during the call.
        Error::check(region.call(|raw| unsafe { call(raw, &name) }))
    }

    /// Renews the lease: so long from now; `None`: it never ends by itself.
    ///
    /// # Errors
    /// `EREVOKED` if it has ended, `ECLOSED`.
    pub fn renew(&self, lease: Option<Duration>) -> Result<()> {
        let Some(region) = self.region.upgrade() else {
            return Err(Error::of(sys::XFER_ECLOSED));
        };
        let (name, lease) = (self.name.raw(), lease.map_or(sys::XFER_NONE, millis));
        // SAFETY: both are live during the call.
        Error::check(region.call(|raw| unsafe { sys::xfer_region_renew(raw, &name, lease) }))
    }

    /// Takes it back: later uses end with `EREVOKED`, and [`ended`](Self::ended) says when its
    /// memory is quiet.
    ///
    /// # Errors
    /// `EREVOKED` if it has ended, `ECLOSED`.
    pub fn revoke(&self) -> Result<()> {
        self.call(sys::xfer_region_revoke)
    }

    /// Its end, to be waited for once: the memory is quiet, as far as this grant goes.
    ///
    /// `Ok` says that it was revoked, `ETIMEDOUT` that its lease has ended, `ECLOSED` that its
    /// region has.
    pub fn ended(&mut self) -> &mut Operation<Result<()>> {
        &mut self.ended
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let _ = self.revoke(); // it may have ended
    }
}
