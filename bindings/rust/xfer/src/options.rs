// SPDX-License-Identifier: Apache-2.0

use crate::call::millis;
use crate::status::fixed;
use crate::{text, Engine, Error, Result, Status};
use std::ffi::CString;
use std::mem::size_of;
use std::ptr::null;
use std::time::Duration;
use xfer_sys as sys;

/// How an engine is opened. What is not set has the library's default. Limits of time are rounded down
/// to milliseconds, to 1 at least; a value that the library does not take is refused by
/// [`open`](Self::open).
pub struct EngineOptions {
    pub(crate) raw: sys::xfer_engine_options_t,
    texts: Vec<CString>, // which raw points to
    blobs: Vec<Box<[u8]>>,
    rdma: Option<Box<sys::xfer_rdma_options_t>>,
    wrong: Option<Error>, // the first number that was refused, until the open
}

/// Which adapters an engine uses, and how; as `xfer_rdma_options_t`. `None` is the default.
#[derive(Clone, Default, Debug)]
pub struct RdmaOptions {
    /// Those that may be used, such as `mlx5_0,mlx5_1:1`, or `none`. Default: as the environment's
    /// `XFER_RDMA_DEVICES` says, or all.
    pub devices: Option<String>,
    /// Requests that a queue pair may have in its send queue, 1 at least.
    pub queue_depth: Option<u32>,
    /// A packet is sent again after 4.096 us times two to the power of this, 1 at least.
    pub ack_timeout: Option<u32>,
    /// How often it is; 0: not at all. Messages wait a third of a second at most.
    pub retries: Option<u32>,
    /// In the header of packets that are routed.
    pub traffic_class: u32,
    /// Of packets on InfiniBand.
    pub service_level: u32,
}

/// One option that can be set by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// As in the C struct.
    pub name: &'static str,
    /// What it may be, such as "thread|loop|poll" or "NUMBER|none".
    pub values: &'static str,
    /// What it means, in less than a line.
    pub help: &'static str,
    /// `sys::XFER_OPTION_*`.
    pub kind: u32,
}

/// A number for a field of C in which 0 stands for the default, and `XFER_NONE` for none.
pub(crate) fn number(field: &str, value: u32) -> Result<u32> {
    match value {
        0 => Err(wrong(format!("{field} is 0, which is the default to the library"))),
        sys::XFER_NONE => Err(wrong(format!("{field} is {value}, which is none to the library"))),
        _ => Ok(value),
    }
}

/// The same of a field where `None` is the default.
fn number_or_default(field: &str, value: Option<u32>) -> Result<u32> {
    value.map_or(Ok(0), |value| number(field, value))
}

/// The same of a field where `None` and 0 are none.
fn number_or_none(field: &str, value: Option<u32>) -> Result<u32> {
    match value {
        None | Some(0) => Ok(sys::XFER_NONE),
        Some(value) => number(field, value),
    }
}

pub(crate) fn wrong(text: String) -> Error {
    Error::with_text(Status::EINVAL, text)
}

/// As milliseconds; `None` is `XFER_NONE`.
fn limit(limit: Option<Duration>) -> u32 {
    limit.map_or(sys::XFER_NONE, millis)
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl EngineOptions {
    /// The defaults.
    pub fn new() -> Self {
        let raw = sys::xfer_engine_options_t {
            size: size_of::<sys::xfer_engine_options_t>() as u32,
            flags: sys::XFER_ENGINE_OWN_PEERS,
            ..Default::default()
        };
        EngineOptions { raw, texts: Vec::new(), blobs: Vec::new(), rdma: None, wrong: None }
    }

    /// Opens the engine. Events are taken by polls alone, whatever option `dispatch` says.
    ///
    /// # Errors
    /// `EINVAL`, `ENOMEM`, `ENOFILES`, `EIO`; `EVERSION` if the library is not that of this crate;
    /// `EUNSUPPORTED` for an option that is not of this crate.
    pub fn open(self) -> Result<Engine> {
        Engine::open_with(self)
    }

    /// Every option that [`set`](Self::set) knows.
    pub fn all() -> Vec<OptionInfo> {
        let at = |index| {
            let mut info = sys::xfer_option_info_t::default();
            let size = size_of::<sys::xfer_option_info_t>() as u32;
            // SAFETY: `info` has room for `size` bytes; what it has then are static strings.
            unsafe {
                let status = sys::xfer_engine_option_at(index, &mut info, size);
                (status == sys::XFER_OK).then(|| OptionInfo {
                    name: fixed(info.name),
                    values: fixed(info.values),
                    help: fixed(info.help),
                    kind: info.kind,
                })
            }
        };
        (0..).map_while(at).collect()
    }

    /// Sets one option by its name, from a text such as a configuration file has.
    ///
    /// # Errors
    /// `ENOTFOUND` if no option has that name, `EINVAL` if it has no such value; the text says
    /// which.
    pub fn set(mut self, name: &str, value: &str) -> Result<Self> {
        let (name, value) = (text(name)?, text(value)?);
        let mut detail = sys::xfer_error_t::default();
        // SAFETY: all are live during the call, and the value until the engine is open.
        let status = unsafe {
            let value = value.as_ptr();
            sys::xfer_engine_option_set(&mut self.raw, name.as_ptr(), value, &mut detail)
        };
        Error::detailed(status, &detail)?;
        self.texts.push(value);
        Ok(self)
    }

    fn lend_text(&mut self, value: &str) -> Result<*const std::ffi::c_char> {
        let value = text(value)?;
        let start = value.as_ptr();
        self.texts.push(value);
        Ok(start)
    }

    fn lend_bytes(&mut self, value: &[u8]) -> *const std::ffi::c_void {
        self.blobs.push(value.into());
        self.blobs[self.blobs.len() - 1].as_ptr().cast()
    }

    fn flag(mut self, flag: u32, on: bool) -> Self {
        self.raw.flags = if on { self.raw.flags | flag } else { self.raw.flags & !flag };
        self
    }

    /// The number, or 0 if it is refused, which the open will tell.
    fn checked_number(&mut self, number: Result<u32>) -> u32 {
        number.unwrap_or_else(|error| {
            self.wrong.get_or_insert(error);
            0
        })
    }

    /// Threads that drive sockets; `None` and 0: whoever polls does. Default: the library's choice,
    /// today 1.
    pub fn io_threads(mut self, count: Option<u32>) -> Self {
        self.raw.io_threads = self.checked_number(number_or_none("io_threads", count));
        self
    }

    /// How long to look for work before sleeping, in microseconds, rounded down, to 1 at least;
    /// `None` and zero: not at all. Default: the library's choice.
    pub fn spin(mut self, limit: Option<Duration>) -> Self {
        let micros = |limit: Duration| limit.as_micros().clamp(1, 1_000_000_000) as u32;
        let limit = limit.filter(|limit| !limit.is_zero());
        self.raw.spin_us = limit.map_or(sys::XFER_NONE, micros);
        self
    }

    /// Identity kept over restarts. Default: random.
    pub fn id(mut self, bytes: [u8; 16]) -> Self {
        self.raw.id = bytes;
        self
    }

    /// Shown to peers, at most 1,024 bytes.
    pub fn blob(mut self, bytes: &[u8]) -> Self {
        self.raw.blob = self.lend_bytes(bytes);
        self.raw.blob_length = bytes.len() as u64;
        self
    }

    /// Shared secret of all members, 32 to 256 bytes. Default: none.
    pub fn key(mut self, bytes: &[u8]) -> Self {
        self.raw.key = self.lend_bytes(bytes);
        self.raw.key_length = bytes.len() as u64;
        self
    }

    /// A comma list of loopback, tcp, unix, shm and rdma that restricts. Default: all.
    ///
    /// # Errors
    /// `EINVAL` if there is a NUL in it.
    pub fn transports(mut self, list: &str) -> Result<Self> {
        self.raw.transports = self.lend_text(list)?;
        Ok(self)
    }

    /// A comma list of URIs that peers should dial. Default: the bound addresses.
    ///
    /// # Errors
    /// `EINVAL` if there is a NUL in it.
    pub fn advertise(mut self, list: &str) -> Result<Self> {
        self.raw.advertise = self.lend_text(list)?;
        Ok(self)
    }

    /// Which adapters are used, and how.
    ///
    /// # Errors
    /// `EINVAL` if there is a NUL in `devices`, or a number is 0 that must not be.
    pub fn rdma(mut self, options: &RdmaOptions) -> Result<Self> {
        let devices = options.devices.as_deref().map(|list| self.lend_text(list)).transpose()?;
        let raw = self.rdma.insert(Box::new(sys::xfer_rdma_options_t {
            size: size_of::<sys::xfer_rdma_options_t>() as u32,
            queue_depth: number_or_default("queue_depth", options.queue_depth)?,
            devices: devices.unwrap_or(null()),
            ack_timeout: number_or_default("ack_timeout", options.ack_timeout)?,
            retries: options.retries.map_or(Ok(0), |n| number_or_none("retries", Some(n)))?,
            traffic_class: options.traffic_class,
            service_level: options.service_level,
            ..Default::default()
        }));
        self.raw.rdma = &**raw;
        Ok(self)
    }

    /// Deadline of operations that give none; `None`, the default: only the stall limit.
    pub fn timeout(mut self, after: Option<Duration>) -> Self {
        self.raw.timeout_ms = limit(after);
        self
    }

    /// An operation of which no byte moves for this long ends with `ETIMEDOUT`. Default: 30 s.
    pub fn stall(mut self, after: Duration) -> Self {
        self.raw.stall_ms = millis(after);
        self
    }

    /// One attempt to connect. Default: 5 s.
    pub fn connect(mut self, within: Duration) -> Self {
        self.raw.connect_ms = millis(within);
        self
    }

    /// A peer that is silent for half of this is pinged, and lost after at most twice this. Default:
    /// 5 s.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.raw.heartbeat_ms = millis(every);
        self
    }

    /// A connection unused for this long is closed; the next operation opens it again. Default:
    /// 300 s.
    pub fn idle(mut self, after: Duration) -> Self {
        self.raw.idle_ms = millis(after);
        self
    }

    /// Data lanes for each peer; `None` and 0: the control channel carries all. Default: the
    /// library's choice, today 1.
    pub fn lanes(mut self, count: Option<u32>) -> Self {
        self.raw.lanes = self.checked_number(number_or_none("lanes", count));
        self
    }

    /// Peers connected at once, 1 at least; one more closes an idle connection, or waits. Default:
    /// 1,024.
    pub fn max_connections(mut self, count: u32) -> Self {
        self.raw.max_connections = self.checked_number(number("max_connections", count));
        self
    }

    /// Operations queued or under way on one endpoint, 1 at least; one more is `EAGAIN`. Default:
    /// 1,024.
    pub fn max_operations(mut self, count: u32) -> Self {
        self.raw.max_operations = self.checked_number(number("max_operations", count));
        self
    }

    /// For full meshes: how long the larger id waits to be dialed before it dials, so that each pair
    /// connects once; `None`, the default: not at all.
    pub fn yielding(mut self, wait: Option<Duration>) -> Self {
        self.raw.yield_ms = limit(wait);
        self
    }

    /// `sys::XFER_LOG_*`, of the lines on stderr that the environment's `XFER_LOG` turns on.
    pub fn log_level(mut self, level: u32) -> Self {
        self.raw.log_level = level;
        self
    }

    /// Allows listening beyond loopback without a key.
    pub fn insecure(self, on: bool) -> Self {
        self.flag(sys::XFER_ENGINE_INSECURE, on)
    }

    /// Adds a CRC-32C to every payload that this engine puts or gets over a network.
    pub fn checksum(self, on: bool) -> Self {
        self.flag(sys::XFER_ENGINE_CHECKSUM, on)
    }

    /// A peer that connects is let in by [`Endpoint::admit`](crate::Endpoint::admit).
    pub fn ask(self, on: bool) -> Self {
        self.flag(sys::XFER_ENGINE_ASK, on)
    }

    /// What the library is given; the rest is as it must be here.
    pub(crate) fn checked(&mut self) -> Result<()> {
        if let Some(error) = self.wrong.take() {
            return Err(error);
        }
        if !matches!(self.raw.dispatch, 0 | sys::XFER_DISPATCH_POLL) {
            let text = "dispatch: this crate takes events by polls";
            return Err(Error::with_text(Status::EUNSUPPORTED, text));
        }
        self.raw.dispatch = sys::XFER_DISPATCH_POLL;
        self.raw.flags |= sys::XFER_ENGINE_OWN_PEERS;
        Ok(())
    }
}

/// How an engine listens.
#[derive(Clone, Default, Debug)]
pub struct ListenOptions {
    /// Allows listening beyond loopback without a key, here.
    pub insecure: bool,
    /// Permission bits of a UNIX socket's file, of which there is one; default 0600.
    pub mode: Option<u32>,
    /// A comma list of URIs that peers should dial for this listener; "{port}" is the bound port.
    pub advertise: Option<String>,
    /// Comes back as `listener` with peers that were accepted here.
    pub number: u64,
}

impl ListenOptions {
    /// With what it points to.
    pub(crate) fn raw(&self) -> Result<(sys::xfer_listen_options_t, Option<CString>)> {
        let advertise = self.advertise.as_deref().map(text).transpose()?;
        let raw = sys::xfer_listen_options_t {
            size: size_of::<sys::xfer_listen_options_t>() as u32,
            flags: if self.insecure { sys::XFER_LISTEN_INSECURE } else { 0 },
            mode: number_or_default("mode", self.mode)?,
            advertise: advertise.as_ref().map_or(null(), |text| text.as_ptr()),
            user: self.number,
            ..Default::default()
        };
        Ok((raw, advertise))
    }
}
