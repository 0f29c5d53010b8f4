// SPDX-License-Identifier: Apache-2.0

use crate::call::{views, Call};
use crate::engine::{Engine, Inner};
use crate::handle::Handle;
use crate::operation::{End, Operation};
use crate::reference::{Id, Ref};
use crate::status::Status;
use crate::{lock, text, EndpointStats, Error, Result};
use std::collections::HashMap;
use std::ffi::CStr;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::time::Duration;
use xfer_sys as sys;

/// The handles of an engine's endpoints until their CLOSED, by the word in their events.
#[derive(Default)]
pub(crate) struct Peers {
    known: HashMap<u64, Known>,
    dialed: u64, // words of peers that came have their highest bit set
}

struct Known {
    handle: Arc<Handle<sys::xfer_ep_t>>,
    owners: usize, // how many `Owned` there are
    is_up: bool,   // of one that came: the engine holds it too
    came: bool,
    closing: Option<u64>, // the word that its CLOSED completes
}

impl Known {
    fn new(raw: *mut sys::xfer_ep_t, came: bool) -> Self {
        // SAFETY: the handle is live, and ours.
        let handle = Arc::new(unsafe { Handle::new(raw, sys::xfer_ep_close) });
        Known { handle, owners: 0, is_up: came, came, closing: None }
    }

    fn close_if_unused(&self) {
        if self.owners == 0 && !self.is_up {
            self.handle.close();
        }
    }
}

impl Peers {
    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn came(&mut self, word: u64, raw: *mut sys::xfer_ep_t) {
        self.known.insert(word, Known::new(raw, true));
    }

    pub fn is_up(&mut self, word: u64, is_up: bool) {
        if let Some(known) = self.known.get_mut(&word).filter(|known| known.came) {
            known.is_up = is_up;
            known.close_if_unused();
        }
    }

    /// Its last event came. The word of who waits for that.
    pub fn closed(&mut self, word: u64) -> Option<u64> {
        self.known.remove(&word)?.closing
    }
}

/// What the clones of an endpoint share.
struct Owned {
    engine: Arc<Inner>,
    handle: Arc<Handle<sys::xfer_ep_t>>,
    word: u64,
}

impl Drop for Owned {
    fn drop(&mut self) {
        let mut peers = lock(&self.engine.peers);
        if let Some(known) = peers.known.get_mut(&self.word) {
            known.owners -= 1;
            known.close_if_unused();
        }
    }
}

/// A peer that was dialed, or that came. Clones are the same endpoint, also in other threads, and any
/// thread may call any method, several at once. The last clone that is dropped closes it, and what was
/// begun with it counts as one.
///
/// The handle of a peer that came stays with the engine while the peer is up, and with whoever has a
/// clone: to have it is what `xfer_ep_keep` is in C.
#[derive(Clone)]
pub struct Endpoint {
    owned: Arc<Owned>,
    pub(crate) call: Call,
}

views!(Endpoint);

/// What a lookup has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Names the region, as long as its owner has it open.
    pub name: Ref,
    /// What its owner shows of it.
    pub blob: Vec<u8>,
}

/// How far an endpoint is; the library may know more than these.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PeerState(pub u32);

impl PeerState {
    /// No connection, and none is wanted.
    pub const IDLE: PeerState = PeerState(sys::XFER_EP_IDLE);
    /// An attempt is under way, or the next one waits for its time.
    pub const CONNECTING: PeerState = PeerState(sys::XFER_EP_CONNECTING);
    /// Connected.
    pub const READY: PeerState = PeerState(sys::XFER_EP_READY);
    /// Closed.
    pub const CLOSED: PeerState = PeerState(sys::XFER_EP_CLOSED);
}

/// What is known of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// All zero until the first connection.
    pub id: Id,
    /// How far it is.
    pub state: PeerState,
    /// Where we dial, or where it came from.
    pub address: String,
    /// What the peer shows of itself.
    pub blob: Vec<u8>,
}

pub(crate) fn done(end: End, (): ()) -> Result<()> {
    end.result()
}

impl Engine {
    /// The peer at `uri`, or at one address of a comma list. The first use connects.
    ///
    /// # Errors
    /// `EADDR`, `EINVAL`, `EUNSUPPORTED`, `ETOOBIG`, `ECLOSED`.
    pub fn dial(&self, uri: &str) -> Result<Endpoint> {
        self.dial_peer(Some(uri), None)
    }

    /// The engine of that identity (whose incarnation is ignored), wherever it is: any connection
    /// with it serves, whoever dialed. With this engine's own it is itself.
    ///
    /// # Errors
    /// As [`dial`](Self::dial); `EINVAL` without either.
    pub fn dial_peer(&self, uri: Option<&str>, id: Option<&Id>) -> Result<Endpoint> {
        let uri = uri.map(text).transpose()?;
        let (id, mut detail, mut raw) = (id.map(Id::raw), sys::xfer_error_t::default(), null_mut());
        // Locked until the endpoint is known: its events may come at once.
        let mut peers = lock(&self.inner.peers);
        peers.dialed += 1;
        let word = peers.dialed;
        let options = sys::xfer_ep_options_t {
            size: size_of::<sys::xfer_ep_options_t>() as u32,
            peer: id.as_ref().map_or(null(), |id| id),
            user: word,
            ..Default::default()
        };
        let uri = uri.as_ref().map_or(null(), |uri| uri.as_ptr());
        // SAFETY: all arguments are live during the call.
        let status =
            unsafe { sys::xfer_ep_open(self.inner.raw, uri, &options, &mut raw, &mut detail) };
        Error::detailed(status, &detail)?;
        peers.known.insert(word, Known::new(raw, false));
        let owned = Endpoint::owned(&self.inner, &mut peers, word);
        Ok(Endpoint { owned: owned.expect("it was just inserted"), call: self.call })
    }
}

impl Endpoint {
    fn owned(engine: &Arc<Inner>, peers: &mut Peers, word: u64) -> Option<Arc<Owned>> {
        let known = peers.known.get_mut(&word)?;
        known.owners += 1;
        Some(Arc::new(Owned { engine: engine.clone(), handle: known.handle.clone(), word }))
    }

    /// The endpoint whose events have that word, until it was closed.
    pub(crate) fn known(engine: &Arc<Inner>, word: u64) -> Option<Self> {
        let owned = Self::owned(engine, &mut lock(&engine.peers), word)?;
        Some(Endpoint { owned, call: Call::default() })
    }

    pub(crate) fn engine(&self) -> &Arc<Inner> {
        &self.owned.engine
    }

    pub(crate) fn word(&self) -> u64 {
        self.owned.word
    }

    pub(crate) fn handle(&self) -> &Handle<sys::xfer_ep_t> {
        &self.owned.handle
    }

    /// Whether both are one endpoint.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.owned.handle, &other.owned.handle)
    }

    /// Adds an address, or a comma list, such as where the peer was restarted.
    ///
    /// # Errors
    /// `EADDR`, `EINVAL`, `EUNSUPPORTED`, `ETOOBIG`, `ECLOSED`.
    pub fn add_address(&self, uri: &str) -> Result<()> {
        let (uri, mut detail) = (text(uri)?, sys::xfer_error_t::default());
        // SAFETY: all arguments are live during the call.
        let status = self
            .handle()
            .call(|raw| unsafe { sys::xfer_ep_add_address(raw, uri.as_ptr(), &mut detail) });
        Error::detailed(status, &detail)
    }

    /// Lets a peer in that has asked.
    ///
    /// # Errors
    /// `EINVAL` of an endpoint that was dialed; `ECLOSED`.
    pub fn admit(&self) -> Result<()> {
        self.verdict(Status::OK)
    }

    /// Turns a peer away: with `EACCESS` what waits there for us fails, with `EOVERLOAD` the peer
    /// tries again later. Also ends a connection that is up.
    ///
    /// # Errors
    /// `EINVAL` of another verdict, or of an endpoint that was dialed; `ECLOSED`.
    pub fn refuse(&self, verdict: Status) -> Result<()> {
        self.verdict(verdict)
    }

    fn verdict(&self, verdict: Status) -> Result<()> {
        // SAFETY: the handle is live.
        Error::check(self.handle().call(|raw| unsafe { sys::xfer_ep_admit(raw, verdict.0) }))
    }

    /// Begins what lends nothing and whose result is its status.
    pub(crate) fn begin<T>(
        &self,
        finish: impl FnOnce(End, ()) -> T + Send + 'static,
        call: impl FnOnce(*mut sys::xfer_ep_t, u64, &mut sys::xfer_error_t) -> sys::xfer_status_t,
    ) -> Operation<T> {
        self.begin_with(Box::new(()), finish, call)
    }

    /// Begins what is lent something until its event.
    pub(crate) fn begin_with<T, L: Send + 'static>(
        &self,
        lent: Box<L>,
        finish: impl FnOnce(End, L) -> T + Send + 'static,
        call: impl FnOnce(*mut sys::xfer_ep_t, u64, &mut sys::xfer_error_t) -> sys::xfer_status_t,
    ) -> Operation<T> {
        let mut begun =
            Operation::begin(self.engine(), self.call.group, lent, finish, |word, detail| {
                self.handle().call(|raw| call(raw, word, detail))
            });
        begun.endpoint = Some(self.clone());
        begun
    }

    /// Connects now, so that the first operation need not.
    ///
    /// Errors: that of the last failed attempt when no address is left to try; `ETIMEDOUT` at its
    /// deadline, `EACCESS` of a peer that turned us away; `EAGAIN`, `ECANCELED`, `ECLOSED`.
    pub fn connect(&self) -> Operation<Result<()>> {
        let options = self.call.options(0);
        // SAFETY: all are live during the call.
        self.begin(done, |raw, word, _| unsafe { sys::xfer_ep_connect(raw, word, &options) })
    }

    /// Asks for the ref and blob of the peer's region of that name. A notice
    /// [`RegionGone`](crate::Notice::RegionGone) tells when that region closes.
    ///
    /// Errors: `ENOTFOUND` if the peer has none, with the name in the text; `EVERSION` if its ref is
    /// a later library's; `EINVAL`, `EAGAIN`, `ETIMEDOUT`, `ECANCELED`, `EPEERLOST`, `ECLOSED`.
    pub fn lookup(&self, name: &str) -> Operation<Result<Found>> {
        self.look_up(name, 0)
    }

    /// The same; if the name is not there, it waits until it is: without a deadline for ever.
    ///
    /// Errors: as [`lookup`](Self::lookup), but for `ENOTFOUND`; `EOVERLOAD` if 1,024 of one connection
    /// wait there.
    pub fn lookup_wait(&self, name: &str) -> Operation<Result<Found>> {
        self.look_up(name, sys::XFER_FLAG_WAIT)
    }

    fn look_up(&self, name: &str, flags: u32) -> Operation<Result<Found>> {
        let finish = |mut end: End, ()| {
            end.result()?;
            let blob = end.data.split_off(size_of::<sys::xfer_ref_t>().min(end.data.len()));
            let name = Ref::try_from(end.data.as_slice());
            Ok(Found { name: name.map_err(|_| Error::of(sys::XFER_EINTERNAL))?, blob })
        };
        let name = match text(name) {
            Ok(name) => name,
            Err(error) => return Operation::refused(self.engine(), error, (), finish),
        };
        let options = self.call.options(flags);
        // SAFETY: all are live during the call.
        self.begin(finish, |raw, word, detail| unsafe {
            sys::xfer_ep_lookup(raw, name.as_ptr(), word, &options, detail)
        })
    }

    /// Measures a round trip to the peer's engine.
    ///
    /// Errors: `EAGAIN`, `ECLOSED`, and what ends other operations.
    pub fn probe(&self) -> Operation<Result<Duration>> {
        let options = self.call.options(0);
        let finish = |end: End, ()| end.result().map(|()| Duration::from_nanos(end.bytes));
        // SAFETY: all are live during the call.
        self.begin(finish, |raw, word, _| unsafe { sys::xfer_ep_probe(raw, word, &options) })
    }

    /// Waits for all that was begun with this endpoint by calls that returned before this one.
    ///
    /// Errors: the first failure since the last flush. With `ETIMEDOUT` at its own deadline, and
    /// `ECANCELED`, it tells none, and leaves the operations alone. `EAGAIN`, `ECLOSED`.
    pub fn flush(&self) -> Operation<Result<()>> {
        let options = self.call.options(0);
        let mut idle = 0;
        let operation = self.begin(done, |raw, word, _| {
            lock(&self.engine().ledger).flushes(self.word(), word);
            // SAFETY: all are live during the call.
            let status = unsafe { sys::xfer_ep_flush(raw, &mut idle, word, &options) };
            if status != sys::XFER_OK {
                lock(&self.engine().ledger).flushed(word, false);
            }
            status
        });
        if idle == 1 {
            self.engine().flushed(operation.word, End::default()); // no event comes
        }
        operation
    }

    /// How far it is.
    ///
    /// # Errors
    /// `ECLOSED`.
    pub fn state(&self) -> Result<PeerState> {
        let mut state = 0;
        // SAFETY: both are live during the call.
        let status = self.handle().call(|raw| unsafe { sys::xfer_ep_state(raw, &mut state) });
        Error::check(status).map(|()| PeerState(state))
    }

    /// What is known of the peer.
    ///
    /// # Errors
    /// `ECLOSED`.
    pub fn peer(&self) -> Result<PeerInfo> {
        let mut info = sys::xfer_peer_info_t::default();
        let size = size_of::<sys::xfer_peer_info_t>() as u32;
        // SAFETY: `info` has room for `size` bytes.
        let status = self.handle().call(|raw| unsafe { sys::xfer_ep_peer(raw, &mut info, size) });
        Error::check(status)?;
        // SAFETY: an address that was written ends with NUL.
        let address = unsafe { CStr::from_ptr(info.address.as_ptr()) };
        Ok(PeerInfo {
            id: Id::of(&info.id),
            state: PeerState(info.state),
            address: address.to_string_lossy().into_owned(),
            blob: info.blob[..(info.blob_length as usize).min(info.blob.len())].to_vec(),
        })
    }

    /// Counters since its open.
    ///
    /// # Errors
    /// `ECLOSED`.
    pub fn stats(&self) -> Result<EndpointStats> {
        let mut stats = sys::xfer_ep_stats_t::default();
        let size = size_of::<sys::xfer_ep_stats_t>() as u32;
        // SAFETY: `stats` has room for `size` bytes.
        let status = self.handle().call(|raw| unsafe { sys::xfer_ep_stats(raw, &mut stats, size) });
        Error::check(status).map(|()| EndpointStats::of(&stats))
    }

    /// Ends the endpoint, of all clones: its operations end with `ECANCELED`, then comes the result.
    ///
    /// Errors: `ECLOSED` the second time, or if the engine's end came first.
    pub fn close(&self) -> Operation<Result<()>> {
        Operation::begin(self.engine(), 0, Box::new(()), done, |word, _| {
            let mut peers = lock(&self.engine().peers);
            let status = self.handle().close();
            if let (sys::XFER_OK, Some(known)) = (status, peers.known.get_mut(&self.word())) {
                known.is_up = false;
                known.closing = Some(word);
            }
            status
        })
    }
}
