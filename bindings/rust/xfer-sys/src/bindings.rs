// SPDX-License-Identifier: Apache-2.0
// By bindgen from xfer/cuda.h, xfer/rdma.h, xfer/text.h and xfer/xfer.h: see build.rs.

pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub type xfer_status_t = i32;
pub type _bindgen_ty_2 = ::core::ffi::c_int;
pub type _bindgen_ty_3 = ::core::ffi::c_uint;
pub type xfer_error_t = xfer_error;
pub type xfer_engine_t = xfer_engine;
pub type xfer_region_t = xfer_region;
pub type xfer_ep_t = xfer_ep;
pub type xfer_batch_t = xfer_batch;
pub type xfer_counter_t = xfer_counter;
pub type xfer_id_t = xfer_id;
pub type _bindgen_ty_4 = ::core::ffi::c_uint;
pub type _bindgen_ty_5 = ::core::ffi::c_uint;
pub type xfer_event_t = xfer_event;
pub type xfer_event_cb = ::core::option::Option<
    unsafe extern "C" fn(event: *const xfer_event_t, user: u64),
>;
pub type xfer_log_cb = ::core::option::Option<
    unsafe extern "C" fn(level: u32, text: *const ::core::ffi::c_char, user: u64),
>;
pub type _bindgen_ty_6 = ::core::ffi::c_uint;
pub type _bindgen_ty_7 = ::core::ffi::c_uint;
pub type _bindgen_ty_8 = ::core::ffi::c_uint;
pub type xfer_engine_options_t = xfer_engine_options;
pub type _bindgen_ty_9 = ::core::ffi::c_uint;
pub type xfer_op_options_t = xfer_op_options;
pub type _bindgen_ty_10 = ::core::ffi::c_uint;
pub type xfer_listen_options_t = xfer_listen_options;
pub type _bindgen_ty_11 = ::core::ffi::c_uint;
pub type _bindgen_ty_12 = ::core::ffi::c_uint;
pub type _bindgen_ty_13 = ::core::ffi::c_uint;
pub type xfer_ref_t = xfer_ref;
pub type xfer_region_options_t = xfer_region_options;
pub type _bindgen_ty_14 = ::core::ffi::c_uint;
pub type xfer_region_info_t = xfer_region_info;
pub type xfer_ref_info_t = xfer_ref_info;
pub type xfer_grant_options_t = xfer_grant_options;
pub type _bindgen_ty_15 = ::core::ffi::c_uint;
pub type xfer_ep_options_t = xfer_ep_options;
pub type xfer_peer_info_t = xfer_peer_info;
pub type _bindgen_ty_16 = ::core::ffi::c_uint;
pub type _bindgen_ty_17 = ::core::ffi::c_uint;
pub type xfer_span_t = xfer_span;
pub type xfer_strided_t = xfer_strided;
pub type xfer_page_base_t = xfer_page_base;
pub type xfer_pages_t = xfer_pages;
pub type xfer_batch_options_t = xfer_batch_options;
pub type _bindgen_ty_18 = ::core::ffi::c_uint;
pub type xfer_submit_options_t = xfer_submit_options;
pub type _bindgen_ty_19 = ::core::ffi::c_uint;
pub type xfer_batch_info_t = xfer_batch_info;
pub type xfer_message_info_t = xfer_message_info;
pub type xfer_counter_options_t = xfer_counter_options;
pub type xfer_op_stats_t = xfer_op_stats;
pub type xfer_engine_stats_t = xfer_engine_stats;
pub type xfer_ep_stats_t = xfer_ep_stats;
pub type _bindgen_ty_20 = ::core::ffi::c_uint;
pub type _bindgen_ty_21 = ::core::ffi::c_uint;
pub type xfer_option_info_t = xfer_option_info;
pub type xfer_rdma_options_t = xfer_rdma_options;
pub type xfer_cuda_result_t = xfer_cuda_result;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_error {
    pub status: i32,
    pub origin: u32,
    pub native_code: i32,
    pub reserved: u32,
    pub message: [::core::ffi::c_char; 240usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_engine {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_region {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_ep {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_batch {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_counter {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct uv_loop_s {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_cuda_options {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_tls_options {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_id {
    pub bytes: [u8; 16usize],
    pub incarnation: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_event {
    pub kind: u32,
    pub status: xfer_status_t,
    pub flags: u32,
    pub origin: u32,
    pub native_code: i32,
    pub reserved0: u32,
    pub user: u64,
    pub ep: *mut xfer_ep_t,
    pub object: *mut ::core::ffi::c_void,
    pub bytes: u64,
    pub tag: u64,
    pub sequence: u64,
    pub index: u64,
    pub data: *const ::core::ffi::c_void,
    pub data_length: u64,
    pub reserved: [u64; 4usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_engine_options {
    pub size: u32,
    pub dispatch: u32,
    pub io_threads: u32,
    pub spin_us: u32,
    pub uv_loop: *mut uv_loop_s,
    pub on_event: xfer_event_cb,
    pub user: u64,
    pub on_log: xfer_log_cb,
    pub log_user: u64,
    pub log_level: u32,
    pub flags: u32,
    pub id: [u8; 16usize],
    pub blob: *const ::core::ffi::c_void,
    pub blob_length: u64,
    pub key: *const ::core::ffi::c_void,
    pub key_length: u64,
    pub transports: *const ::core::ffi::c_char,
    pub advertise: *const ::core::ffi::c_char,
    pub timeout_ms: u32,
    pub stall_ms: u32,
    pub connect_ms: u32,
    pub heartbeat_ms: u32,
    pub idle_ms: u32,
    pub lanes: u32,
    pub max_connections: u32,
    pub max_operations: u32,
    pub yield_ms: u32,
    pub reserved: [u32; 3usize],
    pub rdma: *const xfer_rdma_options,
    pub cuda: *const xfer_cuda_options,
    pub tls: *const xfer_tls_options,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_op_options {
    pub size: u32,
    pub timeout_ms: u32,
    pub flags: u32,
    pub priority: u32,
    pub trace: u64,
    pub reserved: [u64; 2usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_listen_options {
    pub size: u32,
    pub flags: u32,
    pub mode: u32,
    pub reserved: u32,
    pub advertise: *const ::core::ffi::c_char,
    pub user: u64,
    pub reserved1: [u64; 4usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_ref {
    pub bytes: [u8; 96usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_region_options {
    pub size: u32,
    pub access: u32,
    pub kind: u32,
    pub flags: u32,
    pub name: *const ::core::ffi::c_char,
    pub blob: *const ::core::ffi::c_void,
    pub blob_length: u64,
    pub numa_node: u32,
    pub reserved: u32,
    pub user: u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_region_info {
    pub address: u64,
    pub length: u64,
    pub id: u64,
    pub generation: u32,
    pub access: u32,
    pub kind: u32,
    pub reserved: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_ref_info {
    pub owner: xfer_id_t,
    pub region: u64,
    pub offset: u64,
    pub length: u64,
    pub generation: u32,
    pub access: u32,
    pub kind: u32,
    pub reserved: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_grant_options {
    pub size: u32,
    pub access: u32,
    pub offset: u64,
    pub length: u64,
    pub lease_ms: u32,
    pub reserved: u32,
    pub user: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_ep_options {
    pub size: u32,
    pub reserved: u32,
    pub peer: *const xfer_id_t,
    pub user: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_peer_info {
    pub id: xfer_id_t,
    pub state: u32,
    pub blob_length: u32,
    pub address: [::core::ffi::c_char; 256usize],
    pub blob: [u8; 1024usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_span {
    pub local: u64,
    pub offset: u64,
    pub length: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_strided {
    pub size: u32,
    pub reserved: u32,
    pub local: u64,
    pub local_stride: u64,
    pub remote: *const xfer_ref_t,
    pub offset: u64,
    pub remote_stride: u64,
    pub length: u64,
    pub count: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_page_base {
    pub local: u64,
    pub remote: *const xfer_ref_t,
    pub offset: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_pages {
    pub size: u32,
    pub base_size: u32,
    pub index_size: u32,
    pub reserved: u32,
    pub length: u64,
    pub local_stride: u64,
    pub remote_stride: u64,
    pub count: u64,
    pub local_pages: *const ::core::ffi::c_void,
    pub remote_pages: *const ::core::ffi::c_void,
    pub bases: *const xfer_page_base_t,
    pub base_count: u64,
    pub rows: u64,
    pub local_row_stride: u64,
    pub remote_row_stride: u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_batch_options {
    pub size: u32,
    pub flags: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_submit_options {
    pub size: u32,
    pub timeout_ms: u32,
    pub flags: u32,
    pub priority: u32,
    pub notify_key: u64,
    pub trace: u64,
    pub notify_data: *const ::core::ffi::c_void,
    pub notify_length: u64,
    pub stream: [u64; 2usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_batch_info {
    pub state: u32,
    pub status: xfer_status_t,
    pub entries: u64,
    pub bytes: u64,
    pub first_failed: u64,
    pub reserved: [u64; 3usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_message_info {
    pub sender: xfer_id_t,
    pub tag: u64,
    pub length: u64,
    pub reserved: [u64; 2usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_counter_options {
    pub size: u32,
    pub timeout_ms: u32,
    pub user: u64,
    pub reserved: [u64; 2usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_op_stats {
    pub submitted: u64,
    pub completed: u64,
    pub failed: u64,
    pub expired: u64,
    pub canceled: u64,
    pub bytes: u64,
    pub latency: [u64; 40usize],
    pub reserved: [u64; 7usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_engine_stats {
    pub put: xfer_op_stats_t,
    pub get: xfer_op_stats_t,
    pub batch: xfer_op_stats_t,
    pub notify: xfer_op_stats_t,
    pub send: xfer_op_stats_t,
    pub recv: xfer_op_stats_t,
    pub errors: [u64; 64usize],
    pub served_put: u64,
    pub served_get: u64,
    pub refused: u64,
    pub queued: u64,
    pub inflight: u64,
    pub events_queued: u64,
    pub events: u64,
    pub connects: u64,
    pub accepts: u64,
    pub connections: u64,
    pub connection_ends: u64,
    pub wakeups: u64,
    pub regions: u64,
    pub grants: u64,
    pub served_atomic: u64,
    pub atomic: xfer_op_stats_t,
    pub lane_falls: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_ep_stats {
    pub put: xfer_op_stats_t,
    pub get: xfer_op_stats_t,
    pub batch: xfer_op_stats_t,
    pub notify: xfer_op_stats_t,
    pub send: xfer_op_stats_t,
    pub queued: u64,
    pub inflight: u64,
    pub connections: u64,
    pub rtt_ns: u64,
    pub atomic: xfer_op_stats_t,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_option_info {
    pub name: *const ::core::ffi::c_char,
    pub values: *const ::core::ffi::c_char,
    pub help: *const ::core::ffi::c_char,
    pub kind: u32,
    pub reserved: u32,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct xfer_rdma_options {
    pub size: u32,
    pub queue_depth: u32,
    pub devices: *const ::core::ffi::c_char,
    pub ack_timeout: u32,
    pub retries: u32,
    pub traffic_class: u32,
    pub service_level: u32,
    pub reserved: [u32; 4usize],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct xfer_cuda_result {
    pub status: xfer_status_t,
    pub flags: u32,
    pub runs: u64,
    pub failures: u64,
    pub reserved: u64,
}
pub const XFER_VERSION_MAJOR: u32 = 0;
pub const XFER_VERSION_MINOR: u32 = 1;
pub const XFER_VERSION_PATCH: u32 = 0;
pub const XFER_VERSION: u32 = 256;
pub const XFER_NONE: u32 = 4294967295;
pub const XFER_MAX_NAME: _bindgen_ty_1 = 255;
pub const XFER_MAX_BLOB: _bindgen_ty_1 = 1024;
pub const XFER_MAX_KEY: _bindgen_ty_1 = 256;
pub const XFER_MAX_NOTIFY: _bindgen_ty_1 = 1024;
pub const XFER_MAX_COPY: _bindgen_ty_1 = 4096;
pub const XFER_OK: _bindgen_ty_2 = 0;
pub const XFER_EINVAL: _bindgen_ty_2 = -1;
pub const XFER_EBADHANDLE: _bindgen_ty_2 = -2;
pub const XFER_E2BIG: _bindgen_ty_2 = -3;
pub const XFER_ENOMEM: _bindgen_ty_2 = -4;
pub const XFER_EAGAIN: _bindgen_ty_2 = -5;
pub const XFER_ETOOBIG: _bindgen_ty_2 = -6;
pub const XFER_EDEGRADED: _bindgen_ty_2 = -7;
pub const XFER_EBUSY: _bindgen_ty_2 = -8;
pub const XFER_ECLOSED: _bindgen_ty_2 = -9;
pub const XFER_EDEADLK: _bindgen_ty_2 = -10;
pub const XFER_EFORKED: _bindgen_ty_2 = -11;
pub const XFER_EUNSUPPORTED: _bindgen_ty_2 = -12;
pub const XFER_EEXIST: _bindgen_ty_2 = -13;
pub const XFER_ENOTFOUND: _bindgen_ty_2 = -14;
pub const XFER_EACCESS: _bindgen_ty_2 = -15;
pub const XFER_ERANGE: _bindgen_ty_2 = -16;
pub const XFER_ESTALE: _bindgen_ty_2 = -17;
pub const XFER_ETIMEDOUT: _bindgen_ty_2 = -18;
pub const XFER_ECANCELED: _bindgen_ty_2 = -19;
pub const XFER_EPEERLOST: _bindgen_ty_2 = -20;
pub const XFER_EUNREACHABLE: _bindgen_ty_2 = -21;
pub const XFER_ENAME: _bindgen_ty_2 = -22;
pub const XFER_EADDRINUSE: _bindgen_ty_2 = -23;
pub const XFER_EADDR: _bindgen_ty_2 = -24;
pub const XFER_EAUTH: _bindgen_ty_2 = -25;
pub const XFER_EIDENTITY: _bindgen_ty_2 = -26;
pub const XFER_EPROTO: _bindgen_ty_2 = -27;
pub const XFER_EVERSION: _bindgen_ty_2 = -28;
pub const XFER_ETRUNC: _bindgen_ty_2 = -29;
pub const XFER_ECHECKSUM: _bindgen_ty_2 = -30;
pub const XFER_EMEMKIND: _bindgen_ty_2 = -31;
pub const XFER_EOVERLOAD: _bindgen_ty_2 = -32;
pub const XFER_EREVOKED: _bindgen_ty_2 = -33;
pub const XFER_ENOFILES: _bindgen_ty_2 = -34;
pub const XFER_EIO: _bindgen_ty_2 = -35;
pub const XFER_ENOSPC: _bindgen_ty_2 = -36;
pub const XFER_EINTERNAL: _bindgen_ty_2 = -37;
pub const XFER_ORIGIN_NONE: _bindgen_ty_3 = 0;
pub const XFER_ORIGIN_OS: _bindgen_ty_3 = 1;
pub const XFER_ORIGIN_UV: _bindgen_ty_3 = 2;
pub const XFER_ORIGIN_CARES: _bindgen_ty_3 = 3;
pub const XFER_ORIGIN_VERBS: _bindgen_ty_3 = 4;
pub const XFER_ORIGIN_CUDA: _bindgen_ty_3 = 5;
pub const XFER_ORIGIN_PEER: _bindgen_ty_3 = 6;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_error"][::core::mem::size_of::<xfer_error>() - 256usize];
    ["Alignment of xfer_error"][::core::mem::align_of::<xfer_error>() - 4usize];
    [
        "Offset of field: xfer_error::status",
    ][::core::mem::offset_of!(xfer_error, status) - 0usize];
    [
        "Offset of field: xfer_error::origin",
    ][::core::mem::offset_of!(xfer_error, origin) - 4usize];
    [
        "Offset of field: xfer_error::native_code",
    ][::core::mem::offset_of!(xfer_error, native_code) - 8usize];
    [
        "Offset of field: xfer_error::reserved",
    ][::core::mem::offset_of!(xfer_error, reserved) - 12usize];
    [
        "Offset of field: xfer_error::message",
    ][::core::mem::offset_of!(xfer_error, message) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_id"][::core::mem::size_of::<xfer_id>() - 24usize];
    ["Alignment of xfer_id"][::core::mem::align_of::<xfer_id>() - 8usize];
    [
        "Offset of field: xfer_id::bytes",
    ][::core::mem::offset_of!(xfer_id, bytes) - 0usize];
    [
        "Offset of field: xfer_id::incarnation",
    ][::core::mem::offset_of!(xfer_id, incarnation) - 16usize];
};
pub const XFER_EVENT_PUT: _bindgen_ty_4 = 1;
pub const XFER_EVENT_GET: _bindgen_ty_4 = 2;
pub const XFER_EVENT_BATCH: _bindgen_ty_4 = 3;
pub const XFER_EVENT_SEND: _bindgen_ty_4 = 4;
pub const XFER_EVENT_RECV: _bindgen_ty_4 = 5;
pub const XFER_EVENT_LOOKUP: _bindgen_ty_4 = 6;
pub const XFER_EVENT_PROBE: _bindgen_ty_4 = 7;
pub const XFER_EVENT_CONNECT: _bindgen_ty_4 = 8;
pub const XFER_EVENT_PEER: _bindgen_ty_4 = 9;
pub const XFER_EVENT_PEER_UP: _bindgen_ty_4 = 10;
pub const XFER_EVENT_PEER_DOWN: _bindgen_ty_4 = 11;
pub const XFER_EVENT_REGION_GONE: _bindgen_ty_4 = 12;
pub const XFER_EVENT_NOTIFY: _bindgen_ty_4 = 13;
pub const XFER_EVENT_COUNTER: _bindgen_ty_4 = 14;
pub const XFER_EVENT_REVOKED: _bindgen_ty_4 = 15;
pub const XFER_EVENT_ROOM: _bindgen_ty_4 = 16;
pub const XFER_EVENT_DRAINED: _bindgen_ty_4 = 18;
pub const XFER_EVENT_CLOSED: _bindgen_ty_4 = 19;
pub const XFER_EVENT_NOTIFIED: _bindgen_ty_4 = 20;
pub const XFER_EVENT_ATOMIC: _bindgen_ty_4 = 21;
pub const XFER_EVENT_FLUSH: _bindgen_ty_4 = 22;
pub const XFER_EVENT_STALLED: _bindgen_ty_4 = 23;
pub const XFER_FENCED: _bindgen_ty_5 = 1;
pub const XFER_MAYBE_APPLIED: _bindgen_ty_5 = 2;
pub const XFER_RECONNECTED: _bindgen_ty_5 = 4;
pub const XFER_RESTARTED: _bindgen_ty_5 = 8;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_event"][::core::mem::size_of::<xfer_event>() - 128usize];
    ["Alignment of xfer_event"][::core::mem::align_of::<xfer_event>() - 8usize];
    [
        "Offset of field: xfer_event::kind",
    ][::core::mem::offset_of!(xfer_event, kind) - 0usize];
    [
        "Offset of field: xfer_event::status",
    ][::core::mem::offset_of!(xfer_event, status) - 4usize];
    [
        "Offset of field: xfer_event::flags",
    ][::core::mem::offset_of!(xfer_event, flags) - 8usize];
    [
        "Offset of field: xfer_event::origin",
    ][::core::mem::offset_of!(xfer_event, origin) - 12usize];
    [
        "Offset of field: xfer_event::native_code",
    ][::core::mem::offset_of!(xfer_event, native_code) - 16usize];
    [
        "Offset of field: xfer_event::reserved0",
    ][::core::mem::offset_of!(xfer_event, reserved0) - 20usize];
    [
        "Offset of field: xfer_event::user",
    ][::core::mem::offset_of!(xfer_event, user) - 24usize];
    [
        "Offset of field: xfer_event::ep",
    ][::core::mem::offset_of!(xfer_event, ep) - 32usize];
    [
        "Offset of field: xfer_event::object",
    ][::core::mem::offset_of!(xfer_event, object) - 40usize];
    [
        "Offset of field: xfer_event::bytes",
    ][::core::mem::offset_of!(xfer_event, bytes) - 48usize];
    [
        "Offset of field: xfer_event::tag",
    ][::core::mem::offset_of!(xfer_event, tag) - 56usize];
    [
        "Offset of field: xfer_event::sequence",
    ][::core::mem::offset_of!(xfer_event, sequence) - 64usize];
    [
        "Offset of field: xfer_event::index",
    ][::core::mem::offset_of!(xfer_event, index) - 72usize];
    [
        "Offset of field: xfer_event::data",
    ][::core::mem::offset_of!(xfer_event, data) - 80usize];
    [
        "Offset of field: xfer_event::data_length",
    ][::core::mem::offset_of!(xfer_event, data_length) - 88usize];
    [
        "Offset of field: xfer_event::reserved",
    ][::core::mem::offset_of!(xfer_event, reserved) - 96usize];
};
pub const XFER_LOG_ERROR: _bindgen_ty_6 = 1;
pub const XFER_LOG_WARN: _bindgen_ty_6 = 2;
pub const XFER_LOG_INFO: _bindgen_ty_6 = 3;
pub const XFER_LOG_DEBUG: _bindgen_ty_6 = 4;
pub const XFER_DISPATCH_THREAD: _bindgen_ty_7 = 1;
pub const XFER_DISPATCH_LOOP: _bindgen_ty_7 = 2;
pub const XFER_DISPATCH_POLL: _bindgen_ty_7 = 3;
pub const XFER_ENGINE_INSECURE: _bindgen_ty_8 = 1;
pub const XFER_ENGINE_CHECKSUM: _bindgen_ty_8 = 2;
pub const XFER_ENGINE_UNREF: _bindgen_ty_8 = 4;
pub const XFER_ENGINE_OWN_PEERS: _bindgen_ty_8 = 8;
pub const XFER_ENGINE_ASK: _bindgen_ty_8 = 16;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_engine_options",
    ][::core::mem::size_of::<xfer_engine_options>() - 200usize];
    [
        "Alignment of xfer_engine_options",
    ][::core::mem::align_of::<xfer_engine_options>() - 8usize];
    [
        "Offset of field: xfer_engine_options::size",
    ][::core::mem::offset_of!(xfer_engine_options, size) - 0usize];
    [
        "Offset of field: xfer_engine_options::dispatch",
    ][::core::mem::offset_of!(xfer_engine_options, dispatch) - 4usize];
    [
        "Offset of field: xfer_engine_options::io_threads",
    ][::core::mem::offset_of!(xfer_engine_options, io_threads) - 8usize];
    [
        "Offset of field: xfer_engine_options::spin_us",
    ][::core::mem::offset_of!(xfer_engine_options, spin_us) - 12usize];
    [
        "Offset of field: xfer_engine_options::uv_loop",
    ][::core::mem::offset_of!(xfer_engine_options, uv_loop) - 16usize];
    [
        "Offset of field: xfer_engine_options::on_event",
    ][::core::mem::offset_of!(xfer_engine_options, on_event) - 24usize];
    [
        "Offset of field: xfer_engine_options::user",
    ][::core::mem::offset_of!(xfer_engine_options, user) - 32usize];
    [
        "Offset of field: xfer_engine_options::on_log",
    ][::core::mem::offset_of!(xfer_engine_options, on_log) - 40usize];
    [
        "Offset of field: xfer_engine_options::log_user",
    ][::core::mem::offset_of!(xfer_engine_options, log_user) - 48usize];
    [
        "Offset of field: xfer_engine_options::log_level",
    ][::core::mem::offset_of!(xfer_engine_options, log_level) - 56usize];
    [
        "Offset of field: xfer_engine_options::flags",
    ][::core::mem::offset_of!(xfer_engine_options, flags) - 60usize];
    [
        "Offset of field: xfer_engine_options::id",
    ][::core::mem::offset_of!(xfer_engine_options, id) - 64usize];
    [
        "Offset of field: xfer_engine_options::blob",
    ][::core::mem::offset_of!(xfer_engine_options, blob) - 80usize];
    [
        "Offset of field: xfer_engine_options::blob_length",
    ][::core::mem::offset_of!(xfer_engine_options, blob_length) - 88usize];
    [
        "Offset of field: xfer_engine_options::key",
    ][::core::mem::offset_of!(xfer_engine_options, key) - 96usize];
    [
        "Offset of field: xfer_engine_options::key_length",
    ][::core::mem::offset_of!(xfer_engine_options, key_length) - 104usize];
    [
        "Offset of field: xfer_engine_options::transports",
    ][::core::mem::offset_of!(xfer_engine_options, transports) - 112usize];
    [
        "Offset of field: xfer_engine_options::advertise",
    ][::core::mem::offset_of!(xfer_engine_options, advertise) - 120usize];
    [
        "Offset of field: xfer_engine_options::timeout_ms",
    ][::core::mem::offset_of!(xfer_engine_options, timeout_ms) - 128usize];
    [
        "Offset of field: xfer_engine_options::stall_ms",
    ][::core::mem::offset_of!(xfer_engine_options, stall_ms) - 132usize];
    [
        "Offset of field: xfer_engine_options::connect_ms",
    ][::core::mem::offset_of!(xfer_engine_options, connect_ms) - 136usize];
    [
        "Offset of field: xfer_engine_options::heartbeat_ms",
    ][::core::mem::offset_of!(xfer_engine_options, heartbeat_ms) - 140usize];
    [
        "Offset of field: xfer_engine_options::idle_ms",
    ][::core::mem::offset_of!(xfer_engine_options, idle_ms) - 144usize];
    [
        "Offset of field: xfer_engine_options::lanes",
    ][::core::mem::offset_of!(xfer_engine_options, lanes) - 148usize];
    [
        "Offset of field: xfer_engine_options::max_connections",
    ][::core::mem::offset_of!(xfer_engine_options, max_connections) - 152usize];
    [
        "Offset of field: xfer_engine_options::max_operations",
    ][::core::mem::offset_of!(xfer_engine_options, max_operations) - 156usize];
    [
        "Offset of field: xfer_engine_options::yield_ms",
    ][::core::mem::offset_of!(xfer_engine_options, yield_ms) - 160usize];
    [
        "Offset of field: xfer_engine_options::reserved",
    ][::core::mem::offset_of!(xfer_engine_options, reserved) - 164usize];
    [
        "Offset of field: xfer_engine_options::rdma",
    ][::core::mem::offset_of!(xfer_engine_options, rdma) - 176usize];
    [
        "Offset of field: xfer_engine_options::cuda",
    ][::core::mem::offset_of!(xfer_engine_options, cuda) - 184usize];
    [
        "Offset of field: xfer_engine_options::tls",
    ][::core::mem::offset_of!(xfer_engine_options, tls) - 192usize];
};
pub const XFER_FLAG_SYNC: _bindgen_ty_9 = 1;
pub const XFER_FLAG_QUIET: _bindgen_ty_9 = 2;
pub const XFER_FLAG_COPY: _bindgen_ty_9 = 4;
pub const XFER_FLAG_TAKE: _bindgen_ty_9 = 8;
pub const XFER_FLAG_WAIT: _bindgen_ty_9 = 16;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_op_options"][::core::mem::size_of::<xfer_op_options>() - 40usize];
    [
        "Alignment of xfer_op_options",
    ][::core::mem::align_of::<xfer_op_options>() - 8usize];
    [
        "Offset of field: xfer_op_options::size",
    ][::core::mem::offset_of!(xfer_op_options, size) - 0usize];
    [
        "Offset of field: xfer_op_options::timeout_ms",
    ][::core::mem::offset_of!(xfer_op_options, timeout_ms) - 4usize];
    [
        "Offset of field: xfer_op_options::flags",
    ][::core::mem::offset_of!(xfer_op_options, flags) - 8usize];
    [
        "Offset of field: xfer_op_options::priority",
    ][::core::mem::offset_of!(xfer_op_options, priority) - 12usize];
    [
        "Offset of field: xfer_op_options::trace",
    ][::core::mem::offset_of!(xfer_op_options, trace) - 16usize];
    [
        "Offset of field: xfer_op_options::reserved",
    ][::core::mem::offset_of!(xfer_op_options, reserved) - 24usize];
};
pub const XFER_LISTEN_INSECURE: _bindgen_ty_10 = 1;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_listen_options",
    ][::core::mem::size_of::<xfer_listen_options>() - 64usize];
    [
        "Alignment of xfer_listen_options",
    ][::core::mem::align_of::<xfer_listen_options>() - 8usize];
    [
        "Offset of field: xfer_listen_options::size",
    ][::core::mem::offset_of!(xfer_listen_options, size) - 0usize];
    [
        "Offset of field: xfer_listen_options::flags",
    ][::core::mem::offset_of!(xfer_listen_options, flags) - 4usize];
    [
        "Offset of field: xfer_listen_options::mode",
    ][::core::mem::offset_of!(xfer_listen_options, mode) - 8usize];
    [
        "Offset of field: xfer_listen_options::reserved",
    ][::core::mem::offset_of!(xfer_listen_options, reserved) - 12usize];
    [
        "Offset of field: xfer_listen_options::advertise",
    ][::core::mem::offset_of!(xfer_listen_options, advertise) - 16usize];
    [
        "Offset of field: xfer_listen_options::user",
    ][::core::mem::offset_of!(xfer_listen_options, user) - 24usize];
    [
        "Offset of field: xfer_listen_options::reserved1",
    ][::core::mem::offset_of!(xfer_listen_options, reserved1) - 32usize];
};
pub const XFER_READ: _bindgen_ty_11 = 1;
pub const XFER_WRITE: _bindgen_ty_11 = 2;
pub const XFER_ATOMIC: _bindgen_ty_11 = 4;
pub const XFER_MEM_HOST: _bindgen_ty_12 = 1;
pub const XFER_MEM_CUDA: _bindgen_ty_12 = 2;
pub const XFER_MEM_HIP: _bindgen_ty_12 = 3;
pub const XFER_MEM_ZE: _bindgen_ty_12 = 4;
pub const XFER_MEM_FILE: _bindgen_ty_12 = 5;
pub const XFER_TRANSPORT_LOOPBACK: _bindgen_ty_13 = 1;
pub const XFER_TRANSPORT_TCP: _bindgen_ty_13 = 2;
pub const XFER_TRANSPORT_SHM: _bindgen_ty_13 = 3;
pub const XFER_TRANSPORT_RDMA: _bindgen_ty_13 = 4;
pub const XFER_TRANSPORT_CUDA: _bindgen_ty_13 = 5;
pub const XFER_TRANSPORT_UNIX: _bindgen_ty_13 = 6;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_ref"][::core::mem::size_of::<xfer_ref>() - 96usize];
    ["Alignment of xfer_ref"][::core::mem::align_of::<xfer_ref>() - 1usize];
    [
        "Offset of field: xfer_ref::bytes",
    ][::core::mem::offset_of!(xfer_ref, bytes) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_region_options",
    ][::core::mem::size_of::<xfer_region_options>() - 56usize];
    [
        "Alignment of xfer_region_options",
    ][::core::mem::align_of::<xfer_region_options>() - 8usize];
    [
        "Offset of field: xfer_region_options::size",
    ][::core::mem::offset_of!(xfer_region_options, size) - 0usize];
    [
        "Offset of field: xfer_region_options::access",
    ][::core::mem::offset_of!(xfer_region_options, access) - 4usize];
    [
        "Offset of field: xfer_region_options::kind",
    ][::core::mem::offset_of!(xfer_region_options, kind) - 8usize];
    [
        "Offset of field: xfer_region_options::flags",
    ][::core::mem::offset_of!(xfer_region_options, flags) - 12usize];
    [
        "Offset of field: xfer_region_options::name",
    ][::core::mem::offset_of!(xfer_region_options, name) - 16usize];
    [
        "Offset of field: xfer_region_options::blob",
    ][::core::mem::offset_of!(xfer_region_options, blob) - 24usize];
    [
        "Offset of field: xfer_region_options::blob_length",
    ][::core::mem::offset_of!(xfer_region_options, blob_length) - 32usize];
    [
        "Offset of field: xfer_region_options::numa_node",
    ][::core::mem::offset_of!(xfer_region_options, numa_node) - 40usize];
    [
        "Offset of field: xfer_region_options::reserved",
    ][::core::mem::offset_of!(xfer_region_options, reserved) - 44usize];
    [
        "Offset of field: xfer_region_options::user",
    ][::core::mem::offset_of!(xfer_region_options, user) - 48usize];
};
pub const XFER_REGION_HUGE_PAGES: _bindgen_ty_14 = 1;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_region_info"][::core::mem::size_of::<xfer_region_info>() - 40usize];
    [
        "Alignment of xfer_region_info",
    ][::core::mem::align_of::<xfer_region_info>() - 8usize];
    [
        "Offset of field: xfer_region_info::address",
    ][::core::mem::offset_of!(xfer_region_info, address) - 0usize];
    [
        "Offset of field: xfer_region_info::length",
    ][::core::mem::offset_of!(xfer_region_info, length) - 8usize];
    [
        "Offset of field: xfer_region_info::id",
    ][::core::mem::offset_of!(xfer_region_info, id) - 16usize];
    [
        "Offset of field: xfer_region_info::generation",
    ][::core::mem::offset_of!(xfer_region_info, generation) - 24usize];
    [
        "Offset of field: xfer_region_info::access",
    ][::core::mem::offset_of!(xfer_region_info, access) - 28usize];
    [
        "Offset of field: xfer_region_info::kind",
    ][::core::mem::offset_of!(xfer_region_info, kind) - 32usize];
    [
        "Offset of field: xfer_region_info::reserved",
    ][::core::mem::offset_of!(xfer_region_info, reserved) - 36usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_ref_info"][::core::mem::size_of::<xfer_ref_info>() - 64usize];
    ["Alignment of xfer_ref_info"][::core::mem::align_of::<xfer_ref_info>() - 8usize];
    [
        "Offset of field: xfer_ref_info::owner",
    ][::core::mem::offset_of!(xfer_ref_info, owner) - 0usize];
    [
        "Offset of field: xfer_ref_info::region",
    ][::core::mem::offset_of!(xfer_ref_info, region) - 24usize];
    [
        "Offset of field: xfer_ref_info::offset",
    ][::core::mem::offset_of!(xfer_ref_info, offset) - 32usize];
    [
        "Offset of field: xfer_ref_info::length",
    ][::core::mem::offset_of!(xfer_ref_info, length) - 40usize];
    [
        "Offset of field: xfer_ref_info::generation",
    ][::core::mem::offset_of!(xfer_ref_info, generation) - 48usize];
    [
        "Offset of field: xfer_ref_info::access",
    ][::core::mem::offset_of!(xfer_ref_info, access) - 52usize];
    [
        "Offset of field: xfer_ref_info::kind",
    ][::core::mem::offset_of!(xfer_ref_info, kind) - 56usize];
    [
        "Offset of field: xfer_ref_info::reserved",
    ][::core::mem::offset_of!(xfer_ref_info, reserved) - 60usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_grant_options",
    ][::core::mem::size_of::<xfer_grant_options>() - 40usize];
    [
        "Alignment of xfer_grant_options",
    ][::core::mem::align_of::<xfer_grant_options>() - 8usize];
    [
        "Offset of field: xfer_grant_options::size",
    ][::core::mem::offset_of!(xfer_grant_options, size) - 0usize];
    [
        "Offset of field: xfer_grant_options::access",
    ][::core::mem::offset_of!(xfer_grant_options, access) - 4usize];
    [
        "Offset of field: xfer_grant_options::offset",
    ][::core::mem::offset_of!(xfer_grant_options, offset) - 8usize];
    [
        "Offset of field: xfer_grant_options::length",
    ][::core::mem::offset_of!(xfer_grant_options, length) - 16usize];
    [
        "Offset of field: xfer_grant_options::lease_ms",
    ][::core::mem::offset_of!(xfer_grant_options, lease_ms) - 24usize];
    [
        "Offset of field: xfer_grant_options::reserved",
    ][::core::mem::offset_of!(xfer_grant_options, reserved) - 28usize];
    [
        "Offset of field: xfer_grant_options::user",
    ][::core::mem::offset_of!(xfer_grant_options, user) - 32usize];
};
pub const XFER_EP_IDLE: _bindgen_ty_15 = 1;
pub const XFER_EP_CONNECTING: _bindgen_ty_15 = 2;
pub const XFER_EP_READY: _bindgen_ty_15 = 3;
pub const XFER_EP_CLOSED: _bindgen_ty_15 = 4;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_ep_options"][::core::mem::size_of::<xfer_ep_options>() - 24usize];
    [
        "Alignment of xfer_ep_options",
    ][::core::mem::align_of::<xfer_ep_options>() - 8usize];
    [
        "Offset of field: xfer_ep_options::size",
    ][::core::mem::offset_of!(xfer_ep_options, size) - 0usize];
    [
        "Offset of field: xfer_ep_options::reserved",
    ][::core::mem::offset_of!(xfer_ep_options, reserved) - 4usize];
    [
        "Offset of field: xfer_ep_options::peer",
    ][::core::mem::offset_of!(xfer_ep_options, peer) - 8usize];
    [
        "Offset of field: xfer_ep_options::user",
    ][::core::mem::offset_of!(xfer_ep_options, user) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_peer_info"][::core::mem::size_of::<xfer_peer_info>() - 1312usize];
    ["Alignment of xfer_peer_info"][::core::mem::align_of::<xfer_peer_info>() - 8usize];
    [
        "Offset of field: xfer_peer_info::id",
    ][::core::mem::offset_of!(xfer_peer_info, id) - 0usize];
    [
        "Offset of field: xfer_peer_info::state",
    ][::core::mem::offset_of!(xfer_peer_info, state) - 24usize];
    [
        "Offset of field: xfer_peer_info::blob_length",
    ][::core::mem::offset_of!(xfer_peer_info, blob_length) - 28usize];
    [
        "Offset of field: xfer_peer_info::address",
    ][::core::mem::offset_of!(xfer_peer_info, address) - 32usize];
    [
        "Offset of field: xfer_peer_info::blob",
    ][::core::mem::offset_of!(xfer_peer_info, blob) - 288usize];
};
pub const XFER_ATOMIC_ADD: _bindgen_ty_16 = 1;
pub const XFER_ATOMIC_CAS: _bindgen_ty_16 = 2;
pub const XFER_OP_PUT: _bindgen_ty_17 = 1;
pub const XFER_OP_GET: _bindgen_ty_17 = 2;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_span"][::core::mem::size_of::<xfer_span>() - 24usize];
    ["Alignment of xfer_span"][::core::mem::align_of::<xfer_span>() - 8usize];
    [
        "Offset of field: xfer_span::local",
    ][::core::mem::offset_of!(xfer_span, local) - 0usize];
    [
        "Offset of field: xfer_span::offset",
    ][::core::mem::offset_of!(xfer_span, offset) - 8usize];
    [
        "Offset of field: xfer_span::length",
    ][::core::mem::offset_of!(xfer_span, length) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_strided"][::core::mem::size_of::<xfer_strided>() - 64usize];
    ["Alignment of xfer_strided"][::core::mem::align_of::<xfer_strided>() - 8usize];
    [
        "Offset of field: xfer_strided::size",
    ][::core::mem::offset_of!(xfer_strided, size) - 0usize];
    [
        "Offset of field: xfer_strided::reserved",
    ][::core::mem::offset_of!(xfer_strided, reserved) - 4usize];
    [
        "Offset of field: xfer_strided::local",
    ][::core::mem::offset_of!(xfer_strided, local) - 8usize];
    [
        "Offset of field: xfer_strided::local_stride",
    ][::core::mem::offset_of!(xfer_strided, local_stride) - 16usize];
    [
        "Offset of field: xfer_strided::remote",
    ][::core::mem::offset_of!(xfer_strided, remote) - 24usize];
    [
        "Offset of field: xfer_strided::offset",
    ][::core::mem::offset_of!(xfer_strided, offset) - 32usize];
    [
        "Offset of field: xfer_strided::remote_stride",
    ][::core::mem::offset_of!(xfer_strided, remote_stride) - 40usize];
    [
        "Offset of field: xfer_strided::length",
    ][::core::mem::offset_of!(xfer_strided, length) - 48usize];
    [
        "Offset of field: xfer_strided::count",
    ][::core::mem::offset_of!(xfer_strided, count) - 56usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_page_base"][::core::mem::size_of::<xfer_page_base>() - 24usize];
    ["Alignment of xfer_page_base"][::core::mem::align_of::<xfer_page_base>() - 8usize];
    [
        "Offset of field: xfer_page_base::local",
    ][::core::mem::offset_of!(xfer_page_base, local) - 0usize];
    [
        "Offset of field: xfer_page_base::remote",
    ][::core::mem::offset_of!(xfer_page_base, remote) - 8usize];
    [
        "Offset of field: xfer_page_base::offset",
    ][::core::mem::offset_of!(xfer_page_base, offset) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_pages"][::core::mem::size_of::<xfer_pages>() - 104usize];
    ["Alignment of xfer_pages"][::core::mem::align_of::<xfer_pages>() - 8usize];
    [
        "Offset of field: xfer_pages::size",
    ][::core::mem::offset_of!(xfer_pages, size) - 0usize];
    [
        "Offset of field: xfer_pages::base_size",
    ][::core::mem::offset_of!(xfer_pages, base_size) - 4usize];
    [
        "Offset of field: xfer_pages::index_size",
    ][::core::mem::offset_of!(xfer_pages, index_size) - 8usize];
    [
        "Offset of field: xfer_pages::reserved",
    ][::core::mem::offset_of!(xfer_pages, reserved) - 12usize];
    [
        "Offset of field: xfer_pages::length",
    ][::core::mem::offset_of!(xfer_pages, length) - 16usize];
    [
        "Offset of field: xfer_pages::local_stride",
    ][::core::mem::offset_of!(xfer_pages, local_stride) - 24usize];
    [
        "Offset of field: xfer_pages::remote_stride",
    ][::core::mem::offset_of!(xfer_pages, remote_stride) - 32usize];
    [
        "Offset of field: xfer_pages::count",
    ][::core::mem::offset_of!(xfer_pages, count) - 40usize];
    [
        "Offset of field: xfer_pages::local_pages",
    ][::core::mem::offset_of!(xfer_pages, local_pages) - 48usize];
    [
        "Offset of field: xfer_pages::remote_pages",
    ][::core::mem::offset_of!(xfer_pages, remote_pages) - 56usize];
    [
        "Offset of field: xfer_pages::bases",
    ][::core::mem::offset_of!(xfer_pages, bases) - 64usize];
    [
        "Offset of field: xfer_pages::base_count",
    ][::core::mem::offset_of!(xfer_pages, base_count) - 72usize];
    [
        "Offset of field: xfer_pages::rows",
    ][::core::mem::offset_of!(xfer_pages, rows) - 80usize];
    [
        "Offset of field: xfer_pages::local_row_stride",
    ][::core::mem::offset_of!(xfer_pages, local_row_stride) - 88usize];
    [
        "Offset of field: xfer_pages::remote_row_stride",
    ][::core::mem::offset_of!(xfer_pages, remote_row_stride) - 96usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_batch_options",
    ][::core::mem::size_of::<xfer_batch_options>() - 8usize];
    [
        "Alignment of xfer_batch_options",
    ][::core::mem::align_of::<xfer_batch_options>() - 4usize];
    [
        "Offset of field: xfer_batch_options::size",
    ][::core::mem::offset_of!(xfer_batch_options, size) - 0usize];
    [
        "Offset of field: xfer_batch_options::flags",
    ][::core::mem::offset_of!(xfer_batch_options, flags) - 4usize];
};
pub const XFER_SUBMIT_NOTIFY: _bindgen_ty_18 = 1;
pub const XFER_SUBMIT_ORDERED: _bindgen_ty_18 = 2;
pub const XFER_SUBMIT_CHECKSUM: _bindgen_ty_18 = 4;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_submit_options",
    ][::core::mem::size_of::<xfer_submit_options>() - 64usize];
    [
        "Alignment of xfer_submit_options",
    ][::core::mem::align_of::<xfer_submit_options>() - 8usize];
    [
        "Offset of field: xfer_submit_options::size",
    ][::core::mem::offset_of!(xfer_submit_options, size) - 0usize];
    [
        "Offset of field: xfer_submit_options::timeout_ms",
    ][::core::mem::offset_of!(xfer_submit_options, timeout_ms) - 4usize];
    [
        "Offset of field: xfer_submit_options::flags",
    ][::core::mem::offset_of!(xfer_submit_options, flags) - 8usize];
    [
        "Offset of field: xfer_submit_options::priority",
    ][::core::mem::offset_of!(xfer_submit_options, priority) - 12usize];
    [
        "Offset of field: xfer_submit_options::notify_key",
    ][::core::mem::offset_of!(xfer_submit_options, notify_key) - 16usize];
    [
        "Offset of field: xfer_submit_options::trace",
    ][::core::mem::offset_of!(xfer_submit_options, trace) - 24usize];
    [
        "Offset of field: xfer_submit_options::notify_data",
    ][::core::mem::offset_of!(xfer_submit_options, notify_data) - 32usize];
    [
        "Offset of field: xfer_submit_options::notify_length",
    ][::core::mem::offset_of!(xfer_submit_options, notify_length) - 40usize];
    [
        "Offset of field: xfer_submit_options::stream",
    ][::core::mem::offset_of!(xfer_submit_options, stream) - 48usize];
};
pub const XFER_BATCH_IDLE: _bindgen_ty_19 = 1;
pub const XFER_BATCH_INFLIGHT: _bindgen_ty_19 = 2;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_batch_info"][::core::mem::size_of::<xfer_batch_info>() - 56usize];
    [
        "Alignment of xfer_batch_info",
    ][::core::mem::align_of::<xfer_batch_info>() - 8usize];
    [
        "Offset of field: xfer_batch_info::state",
    ][::core::mem::offset_of!(xfer_batch_info, state) - 0usize];
    [
        "Offset of field: xfer_batch_info::status",
    ][::core::mem::offset_of!(xfer_batch_info, status) - 4usize];
    [
        "Offset of field: xfer_batch_info::entries",
    ][::core::mem::offset_of!(xfer_batch_info, entries) - 8usize];
    [
        "Offset of field: xfer_batch_info::bytes",
    ][::core::mem::offset_of!(xfer_batch_info, bytes) - 16usize];
    [
        "Offset of field: xfer_batch_info::first_failed",
    ][::core::mem::offset_of!(xfer_batch_info, first_failed) - 24usize];
    [
        "Offset of field: xfer_batch_info::reserved",
    ][::core::mem::offset_of!(xfer_batch_info, reserved) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_message_info"][::core::mem::size_of::<xfer_message_info>() - 56usize];
    [
        "Alignment of xfer_message_info",
    ][::core::mem::align_of::<xfer_message_info>() - 8usize];
    [
        "Offset of field: xfer_message_info::sender",
    ][::core::mem::offset_of!(xfer_message_info, sender) - 0usize];
    [
        "Offset of field: xfer_message_info::tag",
    ][::core::mem::offset_of!(xfer_message_info, tag) - 24usize];
    [
        "Offset of field: xfer_message_info::length",
    ][::core::mem::offset_of!(xfer_message_info, length) - 32usize];
    [
        "Offset of field: xfer_message_info::reserved",
    ][::core::mem::offset_of!(xfer_message_info, reserved) - 40usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_counter_options",
    ][::core::mem::size_of::<xfer_counter_options>() - 32usize];
    [
        "Alignment of xfer_counter_options",
    ][::core::mem::align_of::<xfer_counter_options>() - 8usize];
    [
        "Offset of field: xfer_counter_options::size",
    ][::core::mem::offset_of!(xfer_counter_options, size) - 0usize];
    [
        "Offset of field: xfer_counter_options::timeout_ms",
    ][::core::mem::offset_of!(xfer_counter_options, timeout_ms) - 4usize];
    [
        "Offset of field: xfer_counter_options::user",
    ][::core::mem::offset_of!(xfer_counter_options, user) - 8usize];
    [
        "Offset of field: xfer_counter_options::reserved",
    ][::core::mem::offset_of!(xfer_counter_options, reserved) - 16usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_op_stats"][::core::mem::size_of::<xfer_op_stats>() - 424usize];
    ["Alignment of xfer_op_stats"][::core::mem::align_of::<xfer_op_stats>() - 8usize];
    [
        "Offset of field: xfer_op_stats::submitted",
    ][::core::mem::offset_of!(xfer_op_stats, submitted) - 0usize];
    [
        "Offset of field: xfer_op_stats::completed",
    ][::core::mem::offset_of!(xfer_op_stats, completed) - 8usize];
    [
        "Offset of field: xfer_op_stats::failed",
    ][::core::mem::offset_of!(xfer_op_stats, failed) - 16usize];
    [
        "Offset of field: xfer_op_stats::expired",
    ][::core::mem::offset_of!(xfer_op_stats, expired) - 24usize];
    [
        "Offset of field: xfer_op_stats::canceled",
    ][::core::mem::offset_of!(xfer_op_stats, canceled) - 32usize];
    [
        "Offset of field: xfer_op_stats::bytes",
    ][::core::mem::offset_of!(xfer_op_stats, bytes) - 40usize];
    [
        "Offset of field: xfer_op_stats::latency",
    ][::core::mem::offset_of!(xfer_op_stats, latency) - 48usize];
    [
        "Offset of field: xfer_op_stats::reserved",
    ][::core::mem::offset_of!(xfer_op_stats, reserved) - 368usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of xfer_engine_stats",
    ][::core::mem::size_of::<xfer_engine_stats>() - 3608usize];
    [
        "Alignment of xfer_engine_stats",
    ][::core::mem::align_of::<xfer_engine_stats>() - 8usize];
    [
        "Offset of field: xfer_engine_stats::put",
    ][::core::mem::offset_of!(xfer_engine_stats, put) - 0usize];
    [
        "Offset of field: xfer_engine_stats::get",
    ][::core::mem::offset_of!(xfer_engine_stats, get) - 424usize];
    [
        "Offset of field: xfer_engine_stats::batch",
    ][::core::mem::offset_of!(xfer_engine_stats, batch) - 848usize];
    [
        "Offset of field: xfer_engine_stats::notify",
    ][::core::mem::offset_of!(xfer_engine_stats, notify) - 1272usize];
    [
        "Offset of field: xfer_engine_stats::send",
    ][::core::mem::offset_of!(xfer_engine_stats, send) - 1696usize];
    [
        "Offset of field: xfer_engine_stats::recv",
    ][::core::mem::offset_of!(xfer_engine_stats, recv) - 2120usize];
    [
        "Offset of field: xfer_engine_stats::errors",
    ][::core::mem::offset_of!(xfer_engine_stats, errors) - 2544usize];
    [
        "Offset of field: xfer_engine_stats::served_put",
    ][::core::mem::offset_of!(xfer_engine_stats, served_put) - 3056usize];
    [
        "Offset of field: xfer_engine_stats::served_get",
    ][::core::mem::offset_of!(xfer_engine_stats, served_get) - 3064usize];
    [
        "Offset of field: xfer_engine_stats::refused",
    ][::core::mem::offset_of!(xfer_engine_stats, refused) - 3072usize];
    [
        "Offset of field: xfer_engine_stats::queued",
    ][::core::mem::offset_of!(xfer_engine_stats, queued) - 3080usize];
    [
        "Offset of field: xfer_engine_stats::inflight",
    ][::core::mem::offset_of!(xfer_engine_stats, inflight) - 3088usize];
    [
        "Offset of field: xfer_engine_stats::events_queued",
    ][::core::mem::offset_of!(xfer_engine_stats, events_queued) - 3096usize];
    [
        "Offset of field: xfer_engine_stats::events",
    ][::core::mem::offset_of!(xfer_engine_stats, events) - 3104usize];
    [
        "Offset of field: xfer_engine_stats::connects",
    ][::core::mem::offset_of!(xfer_engine_stats, connects) - 3112usize];
    [
        "Offset of field: xfer_engine_stats::accepts",
    ][::core::mem::offset_of!(xfer_engine_stats, accepts) - 3120usize];
    [
        "Offset of field: xfer_engine_stats::connections",
    ][::core::mem::offset_of!(xfer_engine_stats, connections) - 3128usize];
    [
        "Offset of field: xfer_engine_stats::connection_ends",
    ][::core::mem::offset_of!(xfer_engine_stats, connection_ends) - 3136usize];
    [
        "Offset of field: xfer_engine_stats::wakeups",
    ][::core::mem::offset_of!(xfer_engine_stats, wakeups) - 3144usize];
    [
        "Offset of field: xfer_engine_stats::regions",
    ][::core::mem::offset_of!(xfer_engine_stats, regions) - 3152usize];
    [
        "Offset of field: xfer_engine_stats::grants",
    ][::core::mem::offset_of!(xfer_engine_stats, grants) - 3160usize];
    [
        "Offset of field: xfer_engine_stats::served_atomic",
    ][::core::mem::offset_of!(xfer_engine_stats, served_atomic) - 3168usize];
    [
        "Offset of field: xfer_engine_stats::atomic",
    ][::core::mem::offset_of!(xfer_engine_stats, atomic) - 3176usize];
    [
        "Offset of field: xfer_engine_stats::lane_falls",
    ][::core::mem::offset_of!(xfer_engine_stats, lane_falls) - 3600usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_ep_stats"][::core::mem::size_of::<xfer_ep_stats>() - 2576usize];
    ["Alignment of xfer_ep_stats"][::core::mem::align_of::<xfer_ep_stats>() - 8usize];
    [
        "Offset of field: xfer_ep_stats::put",
    ][::core::mem::offset_of!(xfer_ep_stats, put) - 0usize];
    [
        "Offset of field: xfer_ep_stats::get",
    ][::core::mem::offset_of!(xfer_ep_stats, get) - 424usize];
    [
        "Offset of field: xfer_ep_stats::batch",
    ][::core::mem::offset_of!(xfer_ep_stats, batch) - 848usize];
    [
        "Offset of field: xfer_ep_stats::notify",
    ][::core::mem::offset_of!(xfer_ep_stats, notify) - 1272usize];
    [
        "Offset of field: xfer_ep_stats::send",
    ][::core::mem::offset_of!(xfer_ep_stats, send) - 1696usize];
    [
        "Offset of field: xfer_ep_stats::queued",
    ][::core::mem::offset_of!(xfer_ep_stats, queued) - 2120usize];
    [
        "Offset of field: xfer_ep_stats::inflight",
    ][::core::mem::offset_of!(xfer_ep_stats, inflight) - 2128usize];
    [
        "Offset of field: xfer_ep_stats::connections",
    ][::core::mem::offset_of!(xfer_ep_stats, connections) - 2136usize];
    [
        "Offset of field: xfer_ep_stats::rtt_ns",
    ][::core::mem::offset_of!(xfer_ep_stats, rtt_ns) - 2144usize];
    [
        "Offset of field: xfer_ep_stats::atomic",
    ][::core::mem::offset_of!(xfer_ep_stats, atomic) - 2152usize];
};
pub const XFER_REF_TEXT_SIZE: _bindgen_ty_20 = 129;
pub const XFER_ID_TEXT_SIZE: _bindgen_ty_20 = 50;
pub const XFER_NATIVE_TEXT_SIZE: _bindgen_ty_20 = 128;
pub const XFER_OPTION_NUMBER: _bindgen_ty_21 = 1;
pub const XFER_OPTION_TEXT: _bindgen_ty_21 = 2;
pub const XFER_OPTION_FLAG: _bindgen_ty_21 = 3;
pub const XFER_OPTION_HEX: _bindgen_ty_21 = 4;
pub const XFER_OPTION_CHOICE: _bindgen_ty_21 = 5;
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_option_info"][::core::mem::size_of::<xfer_option_info>() - 32usize];
    [
        "Alignment of xfer_option_info",
    ][::core::mem::align_of::<xfer_option_info>() - 8usize];
    [
        "Offset of field: xfer_option_info::name",
    ][::core::mem::offset_of!(xfer_option_info, name) - 0usize];
    [
        "Offset of field: xfer_option_info::values",
    ][::core::mem::offset_of!(xfer_option_info, values) - 8usize];
    [
        "Offset of field: xfer_option_info::help",
    ][::core::mem::offset_of!(xfer_option_info, help) - 16usize];
    [
        "Offset of field: xfer_option_info::kind",
    ][::core::mem::offset_of!(xfer_option_info, kind) - 24usize];
    [
        "Offset of field: xfer_option_info::reserved",
    ][::core::mem::offset_of!(xfer_option_info, reserved) - 28usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_rdma_options"][::core::mem::size_of::<xfer_rdma_options>() - 48usize];
    [
        "Alignment of xfer_rdma_options",
    ][::core::mem::align_of::<xfer_rdma_options>() - 8usize];
    [
        "Offset of field: xfer_rdma_options::size",
    ][::core::mem::offset_of!(xfer_rdma_options, size) - 0usize];
    [
        "Offset of field: xfer_rdma_options::queue_depth",
    ][::core::mem::offset_of!(xfer_rdma_options, queue_depth) - 4usize];
    [
        "Offset of field: xfer_rdma_options::devices",
    ][::core::mem::offset_of!(xfer_rdma_options, devices) - 8usize];
    [
        "Offset of field: xfer_rdma_options::ack_timeout",
    ][::core::mem::offset_of!(xfer_rdma_options, ack_timeout) - 16usize];
    [
        "Offset of field: xfer_rdma_options::retries",
    ][::core::mem::offset_of!(xfer_rdma_options, retries) - 20usize];
    [
        "Offset of field: xfer_rdma_options::traffic_class",
    ][::core::mem::offset_of!(xfer_rdma_options, traffic_class) - 24usize];
    [
        "Offset of field: xfer_rdma_options::service_level",
    ][::core::mem::offset_of!(xfer_rdma_options, service_level) - 28usize];
    [
        "Offset of field: xfer_rdma_options::reserved",
    ][::core::mem::offset_of!(xfer_rdma_options, reserved) - 32usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of xfer_cuda_result"][::core::mem::size_of::<xfer_cuda_result>() - 32usize];
    [
        "Alignment of xfer_cuda_result",
    ][::core::mem::align_of::<xfer_cuda_result>() - 8usize];
    [
        "Offset of field: xfer_cuda_result::status",
    ][::core::mem::offset_of!(xfer_cuda_result, status) - 0usize];
    [
        "Offset of field: xfer_cuda_result::flags",
    ][::core::mem::offset_of!(xfer_cuda_result, flags) - 4usize];
    [
        "Offset of field: xfer_cuda_result::runs",
    ][::core::mem::offset_of!(xfer_cuda_result, runs) - 8usize];
    [
        "Offset of field: xfer_cuda_result::failures",
    ][::core::mem::offset_of!(xfer_cuda_result, failures) - 16usize];
    [
        "Offset of field: xfer_cuda_result::reserved",
    ][::core::mem::offset_of!(xfer_cuda_result, reserved) - 24usize];
};
impl Default for xfer_error {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_event {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_engine_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_listen_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_ref {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_region_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_ep_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_peer_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_strided {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_page_base {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_pages {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_submit_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_op_stats {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_engine_stats {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_ep_stats {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_option_info {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
impl Default for xfer_rdma_options {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn xfer_version() -> u32;
}
extern "C" {
    pub fn xfer_version_string() -> *const ::core::ffi::c_char;
}
extern "C" {
    pub fn xfer_status_name(status: xfer_status_t) -> *const ::core::ffi::c_char;
}
extern "C" {
    pub fn xfer_status_text(status: xfer_status_t) -> *const ::core::ffi::c_char;
}
extern "C" {
    pub fn xfer_engine_open(
        options: *const xfer_engine_options_t,
        engine: *mut *mut xfer_engine_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_listen(
        engine: *mut xfer_engine_t,
        uri: *const ::core::ffi::c_char,
        options: *const xfer_listen_options_t,
        bound: *mut ::core::ffi::c_char,
        cap: u64,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_addresses(
        engine: *mut xfer_engine_t,
        text: *mut ::core::ffi::c_char,
        cap: u64,
        needed: *mut u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_id(
        engine: *mut xfer_engine_t,
        id: *mut xfer_id_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_fd(engine: *mut xfer_engine_t, fd: *mut i32) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_poll(
        engine: *mut xfer_engine_t,
        events: *mut xfer_event_t,
        event_size: u32,
        max: u32,
        timeout_ms: u32,
        count: *mut u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_wake(engine: *mut xfer_engine_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_drain(
        engine: *mut xfer_engine_t,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_close(engine: *mut xfer_engine_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_join(
        engine: *mut xfer_engine_t,
        timeout_ms: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_open(
        engine: *mut xfer_engine_t,
        options: *const xfer_region_options_t,
        address: *mut ::core::ffi::c_void,
        length: u64,
        region: *mut *mut xfer_region_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_alloc(
        engine: *mut xfer_engine_t,
        options: *const xfer_region_options_t,
        length: u64,
        address: *mut *mut ::core::ffi::c_void,
        region: *mut *mut xfer_region_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_ref(
        region: *mut xfer_region_t,
        ref_: *mut xfer_ref_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_grant(
        region: *mut xfer_region_t,
        options: *const xfer_grant_options_t,
        ref_: *mut xfer_ref_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_renew(
        region: *mut xfer_region_t,
        grant: *const xfer_ref_t,
        lease_ms: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_revoke(
        region: *mut xfer_region_t,
        grant: *const xfer_ref_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_info(
        region: *mut xfer_region_t,
        info: *mut xfer_region_info_t,
        info_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_region_close(region: *mut xfer_region_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ref_info(
        ref_: *const xfer_ref_t,
        info: *mut xfer_ref_info_t,
        info_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_open(
        engine: *mut xfer_engine_t,
        uri: *const ::core::ffi::c_char,
        options: *const xfer_ep_options_t,
        ep: *mut *mut xfer_ep_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_add_address(
        ep: *mut xfer_ep_t,
        uri: *const ::core::ffi::c_char,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_keep(ep: *mut xfer_ep_t, user: u64) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_admit(ep: *mut xfer_ep_t, verdict: xfer_status_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_connect(
        ep: *mut xfer_ep_t,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_lookup(
        ep: *mut xfer_ep_t,
        name: *const ::core::ffi::c_char,
        user: u64,
        options: *const xfer_op_options_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_probe(
        ep: *mut xfer_ep_t,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_state(ep: *mut xfer_ep_t, state: *mut u32) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_peer(
        ep: *mut xfer_ep_t,
        info: *mut xfer_peer_info_t,
        info_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_close(ep: *mut xfer_ep_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_put(
        ep: *mut xfer_ep_t,
        local: *const ::core::ffi::c_void,
        remote: *const xfer_ref_t,
        offset: u64,
        length: u64,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_get(
        ep: *mut xfer_ep_t,
        local: *mut ::core::ffi::c_void,
        remote: *const xfer_ref_t,
        offset: u64,
        length: u64,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_atomic(
        ep: *mut xfer_ep_t,
        op: u32,
        result: *mut u64,
        remote: *const xfer_ref_t,
        offset: u64,
        operand: u64,
        compare: u64,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_flush(
        ep: *mut xfer_ep_t,
        idle: *mut u32,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_open(
        ep: *mut xfer_ep_t,
        options: *const xfer_batch_options_t,
        batch: *mut *mut xfer_batch_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_put(
        batch: *mut xfer_batch_t,
        local: *const ::core::ffi::c_void,
        remote: *const xfer_ref_t,
        offset: u64,
        length: u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_get(
        batch: *mut xfer_batch_t,
        local: *mut ::core::ffi::c_void,
        remote: *const xfer_ref_t,
        offset: u64,
        length: u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_add_spans(
        batch: *mut xfer_batch_t,
        op: u32,
        remote: *const xfer_ref_t,
        spans: *const xfer_span_t,
        span_size: u32,
        count: u64,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_add_strided(
        batch: *mut xfer_batch_t,
        op: u32,
        strided: *const xfer_strided_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_add_pages(
        batch: *mut xfer_batch_t,
        op: u32,
        pages: *const xfer_pages_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_rebind(
        batch: *mut xfer_batch_t,
        from: *const xfer_ref_t,
        to: *const xfer_ref_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_submit(
        batch: *mut xfer_batch_t,
        user: u64,
        options: *const xfer_submit_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_cancel(batch: *mut xfer_batch_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_info(
        batch: *mut xfer_batch_t,
        info: *mut xfer_batch_info_t,
        info_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_entries(
        batch: *mut xfer_batch_t,
        first: u64,
        count: u64,
        statuses: *mut xfer_status_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_reset(batch: *mut xfer_batch_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_batch_close(batch: *mut xfer_batch_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_send(
        ep: *mut xfer_ep_t,
        data: *const ::core::ffi::c_void,
        length: u64,
        tag: u64,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_recv(
        engine: *mut xfer_engine_t,
        ep: *mut xfer_ep_t,
        buffer: *mut ::core::ffi::c_void,
        capacity: u64,
        tag: u64,
        mask: u64,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_peek(
        engine: *mut xfer_engine_t,
        ep: *mut xfer_ep_t,
        tag: u64,
        mask: u64,
        info: *mut xfer_message_info_t,
        info_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_notify(
        ep: *mut xfer_ep_t,
        data: *const ::core::ffi::c_void,
        length: u64,
        key: u64,
        user: u64,
        options: *const xfer_op_options_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_counter_open(
        engine: *mut xfer_engine_t,
        key: u64,
        expected: u64,
        options: *const xfer_counter_options_t,
        counter: *mut *mut xfer_counter_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_counter_close(counter: *mut xfer_counter_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_cancel(
        engine: *mut xfer_engine_t,
        ep: *mut xfer_ep_t,
        user: u64,
        mask: u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_stats(
        engine: *mut xfer_engine_t,
        stats: *mut xfer_engine_stats_t,
        stats_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ep_stats(
        ep: *mut xfer_ep_t,
        stats: *mut xfer_ep_stats_t,
        stats_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_describe(
        engine: *mut xfer_engine_t,
        text: *mut ::core::ffi::c_char,
        cap: u64,
        needed: *mut u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ref_text(
        ref_: *const xfer_ref_t,
        text: *mut ::core::ffi::c_char,
        cap: u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_ref_parse(
        text: *const ::core::ffi::c_char,
        ref_: *mut xfer_ref_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_id_text(
        id: *const xfer_id_t,
        text: *mut ::core::ffi::c_char,
        cap: u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_id_parse(
        text: *const ::core::ffi::c_char,
        id: *mut xfer_id_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_status_at(index: u32, status: *mut xfer_status_t) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_event_name(kind: u32) -> *const ::core::ffi::c_char;
}
extern "C" {
    pub fn xfer_memory_name(kind: u32) -> *const ::core::ffi::c_char;
}
extern "C" {
    pub fn xfer_transport_name(transport: u32) -> *const ::core::ffi::c_char;
}
extern "C" {
    pub fn xfer_engine_kinds(
        engine: *mut xfer_engine_t,
        mask: *mut u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_transports(
        engine: *mut xfer_engine_t,
        mask: *mut u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_native_text(
        origin: u32,
        native_code: i32,
        text: *mut ::core::ffi::c_char,
        cap: u64,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_option_at(
        index: u32,
        info: *mut xfer_option_info_t,
        info_size: u32,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_engine_option_set(
        options: *mut xfer_engine_options_t,
        name: *const ::core::ffi::c_char,
        text: *const ::core::ffi::c_char,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
extern "C" {
    pub fn xfer_cuda_submit(
        batch: *mut xfer_batch_t,
        stream: *mut ::core::ffi::c_void,
        user: u64,
        options: *const xfer_submit_options_t,
        result: *mut *const xfer_cuda_result_t,
        err: *mut xfer_error_t,
    ) -> xfer_status_t;
}
