/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of every public struct, in numbers. A number here never changes: fields are only
 * appended, in the place of reserved ones or, for structs that are passed with their size, at the
 * end.
 */
#include <xfer/cuda.h>
#include <xfer/rdma.h>
#include <xfer/text.h>
#include <xfer/xfer.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#define AT(type, field, offset) \
    _Static_assert(offsetof(type, field) == (offset), "offset of " #type "." #field)

SIZE(xfer_error_t, 256);
AT(xfer_error_t, status, 0);
AT(xfer_error_t, origin, 4);
AT(xfer_error_t, native_code, 8);
AT(xfer_error_t, reserved, 12);
AT(xfer_error_t, message, 16);

SIZE(xfer_id_t, 24);
AT(xfer_id_t, bytes, 0);
AT(xfer_id_t, incarnation, 16);

SIZE(xfer_event_t, 128);
AT(xfer_event_t, kind, 0);
AT(xfer_event_t, status, 4);
AT(xfer_event_t, flags, 8);
AT(xfer_event_t, origin, 12);
AT(xfer_event_t, native_code, 16);
AT(xfer_event_t, reserved0, 20);
AT(xfer_event_t, user, 24);
AT(xfer_event_t, ep, 32);
AT(xfer_event_t, object, 40);
AT(xfer_event_t, bytes, 48);
AT(xfer_event_t, tag, 56);
AT(xfer_event_t, sequence, 64);
AT(xfer_event_t, index, 72);
AT(xfer_event_t, data, 80);
AT(xfer_event_t, data_length, 88);
AT(xfer_event_t, reserved, 96);

SIZE(xfer_engine_options_t, 200);
AT(xfer_engine_options_t, size, 0);
AT(xfer_engine_options_t, dispatch, 4);
AT(xfer_engine_options_t, io_threads, 8);
AT(xfer_engine_options_t, spin_us, 12);
AT(xfer_engine_options_t, uv_loop, 16);
AT(xfer_engine_options_t, on_event, 24);
AT(xfer_engine_options_t, user, 32);
AT(xfer_engine_options_t, on_log, 40);
AT(xfer_engine_options_t, log_user, 48);
AT(xfer_engine_options_t, log_level, 56);
AT(xfer_engine_options_t, flags, 60);
AT(xfer_engine_options_t, id, 64);
AT(xfer_engine_options_t, blob, 80);
AT(xfer_engine_options_t, blob_length, 88);
AT(xfer_engine_options_t, key, 96);
AT(xfer_engine_options_t, key_length, 104);
AT(xfer_engine_options_t, transports, 112);
AT(xfer_engine_options_t, advertise, 120);
AT(xfer_engine_options_t, timeout_ms, 128);
AT(xfer_engine_options_t, stall_ms, 132);
AT(xfer_engine_options_t, connect_ms, 136);
AT(xfer_engine_options_t, heartbeat_ms, 140);
AT(xfer_engine_options_t, idle_ms, 144);
AT(xfer_engine_options_t, lanes, 148);
AT(xfer_engine_options_t, max_connections, 152);
AT(xfer_engine_options_t, max_operations, 156);
AT(xfer_engine_options_t, yield_ms, 160);
AT(xfer_engine_options_t, reserved, 164);
AT(xfer_engine_options_t, rdma, 176);
AT(xfer_engine_options_t, cuda, 184);
AT(xfer_engine_options_t, tls, 192);

SIZE(xfer_rdma_options_t, 48);
AT(xfer_rdma_options_t, size, 0);
AT(xfer_rdma_options_t, queue_depth, 4);
AT(xfer_rdma_options_t, devices, 8);
AT(xfer_rdma_options_t, ack_timeout, 16);
AT(xfer_rdma_options_t, retries, 20);
AT(xfer_rdma_options_t, traffic_class, 24);
AT(xfer_rdma_options_t, service_level, 28);
AT(xfer_rdma_options_t, reserved, 32);

SIZE(xfer_cuda_result_t, 32);
AT(xfer_cuda_result_t, status, 0);
AT(xfer_cuda_result_t, flags, 4);
AT(xfer_cuda_result_t, runs, 8);
AT(xfer_cuda_result_t, failures, 16);
AT(xfer_cuda_result_t, reserved, 24);

SIZE(xfer_listen_options_t, 64);
AT(xfer_listen_options_t, size, 0);
AT(xfer_listen_options_t, flags, 4);
AT(xfer_listen_options_t, mode, 8);
AT(xfer_listen_options_t, reserved, 12);
AT(xfer_listen_options_t, advertise, 16);
AT(xfer_listen_options_t, user, 24);
AT(xfer_listen_options_t, reserved1, 32);

SIZE(xfer_counter_options_t, 32);
AT(xfer_counter_options_t, size, 0);
AT(xfer_counter_options_t, timeout_ms, 4);
AT(xfer_counter_options_t, user, 8);
AT(xfer_counter_options_t, reserved, 16);

SIZE(xfer_op_options_t, 40);
AT(xfer_op_options_t, size, 0);
AT(xfer_op_options_t, timeout_ms, 4);
AT(xfer_op_options_t, flags, 8);
AT(xfer_op_options_t, priority, 12);
AT(xfer_op_options_t, trace, 16);
AT(xfer_op_options_t, reserved, 24);

SIZE(xfer_ref_t, 96);
AT(xfer_ref_t, bytes, 0);

SIZE(xfer_region_options_t, 56);
AT(xfer_region_options_t, size, 0);
AT(xfer_region_options_t, access, 4);
AT(xfer_region_options_t, kind, 8);
AT(xfer_region_options_t, flags, 12);
AT(xfer_region_options_t, name, 16);
AT(xfer_region_options_t, blob, 24);
AT(xfer_region_options_t, blob_length, 32);
AT(xfer_region_options_t, numa_node, 40);
AT(xfer_region_options_t, reserved, 44);
AT(xfer_region_options_t, user, 48);

SIZE(xfer_region_info_t, 40);
AT(xfer_region_info_t, address, 0);
AT(xfer_region_info_t, length, 8);
AT(xfer_region_info_t, id, 16);
AT(xfer_region_info_t, generation, 24);
AT(xfer_region_info_t, access, 28);
AT(xfer_region_info_t, kind, 32);
AT(xfer_region_info_t, reserved, 36);

SIZE(xfer_ref_info_t, 64);
AT(xfer_ref_info_t, owner, 0);
AT(xfer_ref_info_t, region, 24);
AT(xfer_ref_info_t, offset, 32);
AT(xfer_ref_info_t, length, 40);
AT(xfer_ref_info_t, generation, 48);
AT(xfer_ref_info_t, access, 52);
AT(xfer_ref_info_t, kind, 56);
AT(xfer_ref_info_t, reserved, 60);

SIZE(xfer_grant_options_t, 40);
AT(xfer_grant_options_t, size, 0);
AT(xfer_grant_options_t, access, 4);
AT(xfer_grant_options_t, offset, 8);
AT(xfer_grant_options_t, length, 16);
AT(xfer_grant_options_t, lease_ms, 24);
AT(xfer_grant_options_t, reserved, 28);
AT(xfer_grant_options_t, user, 32);

SIZE(xfer_ep_options_t, 24);
AT(xfer_ep_options_t, size, 0);
AT(xfer_ep_options_t, reserved, 4);
AT(xfer_ep_options_t, peer, 8);
AT(xfer_ep_options_t, user, 16);

SIZE(xfer_peer_info_t, 1312);
AT(xfer_peer_info_t, id, 0);
AT(xfer_peer_info_t, state, 24);
AT(xfer_peer_info_t, blob_length, 28);
AT(xfer_peer_info_t, address, 32);
AT(xfer_peer_info_t, blob, 288);

SIZE(xfer_span_t, 24);
AT(xfer_span_t, local, 0);
AT(xfer_span_t, offset, 8);
AT(xfer_span_t, length, 16);

SIZE(xfer_strided_t, 64);
AT(xfer_strided_t, size, 0);
AT(xfer_strided_t, reserved, 4);
AT(xfer_strided_t, local, 8);
AT(xfer_strided_t, local_stride, 16);
AT(xfer_strided_t, remote, 24);
AT(xfer_strided_t, offset, 32);
AT(xfer_strided_t, remote_stride, 40);
AT(xfer_strided_t, length, 48);
AT(xfer_strided_t, count, 56);

SIZE(xfer_page_base_t, 24);
AT(xfer_page_base_t, local, 0);
AT(xfer_page_base_t, remote, 8);
AT(xfer_page_base_t, offset, 16);

SIZE(xfer_pages_t, 104);
AT(xfer_pages_t, size, 0);
AT(xfer_pages_t, base_size, 4);
AT(xfer_pages_t, index_size, 8);
AT(xfer_pages_t, reserved, 12);
AT(xfer_pages_t, length, 16);
AT(xfer_pages_t, local_stride, 24);
AT(xfer_pages_t, remote_stride, 32);
AT(xfer_pages_t, count, 40);
AT(xfer_pages_t, local_pages, 48);
AT(xfer_pages_t, remote_pages, 56);
AT(xfer_pages_t, bases, 64);
AT(xfer_pages_t, base_count, 72);
AT(xfer_pages_t, rows, 80);
AT(xfer_pages_t, local_row_stride, 88);
AT(xfer_pages_t, remote_row_stride, 96);

SIZE(xfer_batch_options_t, 8);
AT(xfer_batch_options_t, size, 0);
AT(xfer_batch_options_t, flags, 4);

SIZE(xfer_batch_info_t, 56);
AT(xfer_batch_info_t, state, 0);
AT(xfer_batch_info_t, status, 4);
AT(xfer_batch_info_t, entries, 8);
AT(xfer_batch_info_t, bytes, 16);
AT(xfer_batch_info_t, first_failed, 24);
AT(xfer_batch_info_t, reserved, 32);

SIZE(xfer_submit_options_t, 64);
AT(xfer_submit_options_t, size, 0);
AT(xfer_submit_options_t, timeout_ms, 4);
AT(xfer_submit_options_t, flags, 8);
AT(xfer_submit_options_t, priority, 12);
AT(xfer_submit_options_t, notify_key, 16);
AT(xfer_submit_options_t, trace, 24);
AT(xfer_submit_options_t, notify_data, 32);
AT(xfer_submit_options_t, notify_length, 40);
AT(xfer_submit_options_t, stream, 48);

SIZE(xfer_op_stats_t, 424);
AT(xfer_op_stats_t, submitted, 0);
AT(xfer_op_stats_t, completed, 8);
AT(xfer_op_stats_t, failed, 16);
AT(xfer_op_stats_t, expired, 24);
AT(xfer_op_stats_t, canceled, 32);
AT(xfer_op_stats_t, bytes, 40);
AT(xfer_op_stats_t, latency, 48);
AT(xfer_op_stats_t, reserved, 368);

SIZE(xfer_engine_stats_t, 3608);
AT(xfer_engine_stats_t, put, 0);
AT(xfer_engine_stats_t, get, 424);
AT(xfer_engine_stats_t, batch, 848);
AT(xfer_engine_stats_t, notify, 1272);
AT(xfer_engine_stats_t, send, 1696);
AT(xfer_engine_stats_t, recv, 2120);
AT(xfer_engine_stats_t, errors, 2544);
AT(xfer_engine_stats_t, served_put, 3056);
AT(xfer_engine_stats_t, served_get, 3064);
AT(xfer_engine_stats_t, refused, 3072);
AT(xfer_engine_stats_t, queued, 3080);
AT(xfer_engine_stats_t, inflight, 3088);
AT(xfer_engine_stats_t, events_queued, 3096);
AT(xfer_engine_stats_t, events, 3104);
AT(xfer_engine_stats_t, connects, 3112);
AT(xfer_engine_stats_t, accepts, 3120);
AT(xfer_engine_stats_t, connections, 3128);
AT(xfer_engine_stats_t, connection_ends, 3136);
AT(xfer_engine_stats_t, wakeups, 3144);
AT(xfer_engine_stats_t, regions, 3152);
AT(xfer_engine_stats_t, grants, 3160);
AT(xfer_engine_stats_t, served_atomic, 3168);
AT(xfer_engine_stats_t, atomic, 3176);
AT(xfer_engine_stats_t, lane_falls, 3600);

SIZE(xfer_ep_stats_t, 2576);
AT(xfer_ep_stats_t, put, 0);
AT(xfer_ep_stats_t, get, 424);
AT(xfer_ep_stats_t, batch, 848);
AT(xfer_ep_stats_t, notify, 1272);
AT(xfer_ep_stats_t, send, 1696);
AT(xfer_ep_stats_t, queued, 2120);
AT(xfer_ep_stats_t, inflight, 2128);
AT(xfer_ep_stats_t, connections, 2136);
AT(xfer_ep_stats_t, rtt_ns, 2144);
AT(xfer_ep_stats_t, atomic, 2152);

SIZE(xfer_message_info_t, 56);
AT(xfer_message_info_t, sender, 0);
AT(xfer_message_info_t, tag, 24);
AT(xfer_message_info_t, length, 32);
AT(xfer_message_info_t, reserved, 40);

SIZE(xfer_option_info_t, 32);
AT(xfer_option_info_t, name, 0);
AT(xfer_option_info_t, values, 8);
AT(xfer_option_info_t, help, 16);
AT(xfer_option_info_t, kind, 24);
AT(xfer_option_info_t, reserved, 28);
