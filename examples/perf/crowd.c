/* SPDX-License-Identifier: Apache-2.0 */
#include "crowd.h"

#include <err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

#include "measure.h"

enum { SETTLE_MS = 100 };

struct member {
    xfer_engine_t *engine;
    char uri[64];
};

struct crowd {
    struct crowd_order order;
    uv_loop_t loop;
    uv_check_t turn;
    uv_timer_t settle;
    struct member *members;
    xfer_ep_t **eps;
    uint64_t ep_count;
    uint64_t answered;
    bool over; /* what ends now, we have ended */
    struct crowd_figures figures;
};

void figures_add(struct crowd_figures *figures, const struct crowd_figures *part) {
    if (part->ready_ns > figures->ready_ns) figures->ready_ns = part->ready_ns;
    figures->connects += part->connects;
    figures->accepts += part->accepts;
    figures->ends += part->ends;
    figures->failures += part->failures;
    figures->descriptors += part->descriptors;
    figures->peak_bytes += part->peak_bytes;
    figures->base_bytes += part->base_bytes;
}

void figures_add_engine(struct crowd_figures *figures, xfer_engine_t *engine) {
    xfer_engine_stats_t stats;
    must(xfer_engine_stats(engine, &stats, sizeof stats), "xfer_engine_stats", NULL);
    figures->connects += stats.connects;
    figures->accepts += stats.accepts;
    figures->ends += stats.connections;
}

void figures_add_failure(struct crowd_figures *figures, const xfer_event_t *event) {
    if (figures->failures++ == 0)
        warnx("%s: %s", event->kind == XFER_EVENT_CONNECT ? "not connected" : "connection lost",
              xfer_status_name(event->status));
}

static void on_event(const xfer_event_t *event, uint64_t user) {
    struct crowd *crowd = (struct crowd *)(uintptr_t)user;
    if (crowd->over) return;
    if (event->kind == XFER_EVENT_CONNECT) {
        crowd->figures.ready_ns = now_ns();
        if (++crowd->answered == crowd->ep_count) uv_stop(&crowd->loop);
        if (event->status != XFER_OK) figures_add_failure(&crowd->figures, event);
    } else if (event->kind == XFER_EVENT_PEER_DOWN) {
        figures_add_failure(&crowd->figures, event);
    }
}

static void on_turn(uv_check_t *turn) {
    struct crowd *crowd = turn->data;
    uint64_t open = descriptors_open();
    if (open > crowd->figures.descriptors) crowd->figures.descriptors = open;
}

static void on_settled(uv_timer_t *timer) {
    struct crowd *crowd = timer->data;
    crowd->over = true;
    uv_stop(&crowd->loop);
}

static void open_member(struct crowd *crowd, struct member *member) {
    const struct crowd_order *order = &crowd->order;
    xfer_engine_options_t options = engine_options(&order->mode, order->key, order->key_length);
    options.dispatch = XFER_DISPATCH_LOOP;
    options.io_threads = XFER_NONE;
    options.uv_loop = &crowd->loop;
    options.on_event = on_event;
    options.user = (uintptr_t)crowd;
    xfer_error_t error;
    must(xfer_engine_open(&options, &member->engine, &error), "xfer_engine_open", &error);
    if (order->one[0] == '\0')
        must(xfer_engine_listen(member->engine, "tcp://127.0.0.1:0", NULL, member->uri,
                                sizeof member->uri, &error),
             "xfer_engine_listen", &error);
}

struct crowd *crowd_open(const struct crowd_order *order) {
    struct crowd *crowd = calloc(1, sizeof *crowd);
    if (crowd == NULL) err(1, "crowd");
    crowd->order = *order;
    bool mesh = order->one[0] == '\0';
    uint64_t eps = order->engines * (mesh ? order->engines - 1 : 1);
    allow_descriptors(mesh ? 2 * eps + order->engines : eps);
    crowd->members = calloc(order->engines, sizeof crowd->members[0]);
    crowd->eps = calloc(eps, sizeof(xfer_ep_t *));
    if (crowd->members == NULL || crowd->eps == NULL) err(1, "crowd");
    if (uv_loop_init(&crowd->loop) != 0) errx(1, "uv_loop_init");
    crowd->turn.data = crowd->settle.data = crowd;
    uv_check_init(&crowd->loop, &crowd->turn);
    uv_check_start(&crowd->turn, on_turn);
    uv_timer_init(&crowd->loop, &crowd->settle);
    for (uint64_t i = 0; i < order->engines; i++)
        open_member(crowd, &crowd->members[i]);
    return crowd;
}

static void meet(struct crowd *crowd, struct member *member, const char *uri) {
    xfer_ep_t **ep = &crowd->eps[crowd->ep_count++];
    xfer_error_t error;
    must(xfer_ep_open(member->engine, uri, NULL, ep, &error), "xfer_ep_open", &error);
    must(xfer_ep_connect(*ep, 0, NULL), "xfer_ep_connect", NULL);
}

struct crowd_figures crowd_meet(struct crowd *crowd) {
    const struct crowd_order *order = &crowd->order;
    struct crowd_figures *figures = &crowd->figures;
    for (uint64_t i = 0; i < order->engines; i++) {
        struct member *member = &crowd->members[i];
        if (order->one[0] != '\0') meet(crowd, member, order->one);
        for (uint64_t j = 0; order->one[0] == '\0' && j < order->engines; j++) {
            if (j != i) meet(crowd, member, crowd->members[j].uri);
        }
    }
    uv_run(&crowd->loop, UV_RUN_DEFAULT);
    uv_timer_start(&crowd->settle, on_settled, SETTLE_MS, 0);
    uv_run(&crowd->loop, UV_RUN_DEFAULT);
    for (uint64_t i = 0; i < order->engines; i++)
        figures_add_engine(figures, crowd->members[i].engine);
    return *figures;
}

void crowd_close(struct crowd *crowd) {
    uint64_t engines = crowd->order.engines;
    uv_close((uv_handle_t *)&crowd->turn, NULL);
    uv_close((uv_handle_t *)&crowd->settle, NULL);
    for (uint64_t i = 0; i < engines; i++)
        must(xfer_engine_close(crowd->members[i].engine), "xfer_engine_close", NULL);
    uv_run(&crowd->loop, UV_RUN_DEFAULT);
    for (uint64_t i = 0; i < engines; i++)
        must(xfer_engine_join(crowd->members[i].engine, XFER_NONE), "xfer_engine_join", NULL);
    for (uint64_t i = 0; i < crowd->ep_count; i++)
        xfer_ep_close(crowd->eps[i]);
    uv_loop_close(&crowd->loop);
    free(crowd->eps);
    free(crowd->members);
    free(crowd);
}
