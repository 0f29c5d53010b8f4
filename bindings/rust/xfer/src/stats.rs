// SPDX-License-Identifier: Apache-2.0

use xfer_sys as sys;

/// What became of one kind of operations since the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpStats {
    /// How many were begun.
    pub submitted: u64,
    /// Ended with OK.
    pub completed: u64,
    /// Neither OK, expired nor canceled.
    pub failed: u64,
    /// Ended with `ETIMEDOUT`.
    pub expired: u64,
    /// Ended with `ECANCELED`.
    pub canceled: u64,
    /// Moved by those that ended with OK.
    pub bytes: u64,
    /// Bucket b counts those that took from 2^b to 2^(b+1) - 1 nanoseconds.
    pub latency: [u64; 40],
}

impl OpStats {
    fn of(raw: &sys::xfer_op_stats_t) -> Self {
        OpStats {
            submitted: raw.submitted,
            completed: raw.completed,
            failed: raw.failed,
            expired: raw.expired,
            canceled: raw.canceled,
            bytes: raw.bytes,
            latency: raw.latency,
        }
    }
}

macro_rules! stats {
    (
        $(#[$about:meta])* $name:ident of $raw:ty;
        operations { $($(#[$operation_text:meta])* $operation:ident,)* }
        numbers { $($(#[$text:meta])* $field:ident: $type:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$operation_text])* pub $operation: OpStats,)*
            $($(#[$text])* pub $field: $type,)*
        }

        impl $name {
            pub(crate) fn of(raw: &$raw) -> Self {
                $name {
                    $($operation: OpStats::of(&raw.$operation),)*
                    $($field: raw.$field,)*
                }
            }
        }
    };
}

stats! {
    /// Counters of an engine, since its open. They are read one by one while they move.
    EngineStats of sys::xfer_engine_stats_t;
    operations {
    /// Puts.
    put,
    /// Gets.
    get,
    /// Batches.
    batch,
    /// Notifications by themselves.
    notify,
    /// Messages sent.
    send,
    /// Messages received.
    recv,
    /// Atomics.
    atomic,
    }
    numbers {
    /// By status: `errors[-status]`.
    errors: [u64; 64],
    /// Bytes that peers put here; copies that a local peer makes itself are not seen.
    served_put: u64,
    /// Bytes that peers got from here; the same.
    served_get: u64,
    /// Atomics of peers that were done here; the same.
    served_atomic: u64,
    /// Requests of peers that were refused.
    refused: u64,
    /// Operations that wait for a connection or for credit, now.
    queued: u64,
    /// Operations under way, now.
    inflight: u64,
    /// Events not yet delivered, now.
    events_queued: u64,
    /// Events delivered.
    events: u64,
    /// Attempts to connect.
    connects: u64,
    /// Attempts of peers.
    accepts: u64,
    /// Live, now.
    connections: u64,
    /// How many have ended.
    connection_ends: u64,
    /// Of the loops, from sleep.
    wakeups: u64,
    /// Open, now.
    regions: u64,
    /// Open, now.
    grants: u64,
    /// Data lanes that ended while their connection went on.
    lane_falls: u64,
    }
}

stats! {
    /// Counters of one endpoint, since its open.
    EndpointStats of sys::xfer_ep_stats_t;
    operations {
    /// Puts.
    put,
    /// Gets.
    get,
    /// Batches.
    batch,
    /// Notifications by themselves.
    notify,
    /// Messages sent.
    send,
    /// Atomics.
    atomic,
    }
    numbers {
    /// Operations that wait for a connection or for credit, now.
    queued: u64,
    /// Operations under way, now.
    inflight: u64,
    /// How many there were.
    connections: u64,
    /// Of the last probe or heartbeat.
    rtt_ns: u64,
    }
}
