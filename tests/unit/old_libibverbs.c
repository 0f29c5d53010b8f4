/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is older than the optional verbs, as drivers and systems have them; with TOO_OLD
 * it lacks one that is needed as well. The declarations of its header are of no use here: it is
 * looked into by name. */
#include <string.h>

#define VERB(name)   \
    void name(void); \
    void name(void) {}

VERB(ibv_get_device_list)
VERB(ibv_free_device_list)
VERB(ibv_get_device_name)
VERB(ibv_open_device)
VERB(ibv_close_device)
VERB(ibv_query_device)
VERB(ibv_query_pkey)
VERB(ibv_get_async_event)
VERB(ibv_ack_async_event)
VERB(ibv_alloc_pd)
VERB(ibv_dealloc_pd)
VERB(ibv_reg_mr)
VERB(ibv_dereg_mr)
VERB(ibv_create_comp_channel)
VERB(ibv_destroy_comp_channel)
VERB(ibv_create_cq)
VERB(ibv_destroy_cq)
VERB(ibv_get_cq_event)
VERB(ibv_ack_cq_events)
VERB(ibv_create_qp)
VERB(ibv_modify_qp)
VERB(ibv_query_qp)
VERB(ibv_destroy_qp)
#ifndef TOO_OLD
VERB(_ibv_query_gid_ex)
#endif

/* Of ibv_port_attr it knows the first 40 bytes, state to active_mtu first. */
int ibv_query_port(void *context, unsigned char port, void *attributes);
int ibv_query_port(void *context, unsigned char port, void *attributes) {
    const int state_and_mtu[] = {4, 5, 3};
    (void)context;
    memcpy(attributes, state_and_mtu, sizeof state_and_mtu);
    return port == 1 ? 0 : 22;
}
