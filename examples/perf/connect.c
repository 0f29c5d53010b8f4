/* SPDX-License-Identifier: Apache-2.0
 *
 * First contact: both engines are up and the memory is registered; the clock runs from xfer_ep_open
 * over the lookup by name until the first 4 KiB are in the memory of the other process. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limits.h"
#include "point.h"

enum { CONTACTS = 20, SETTLE_US = 2000 };

static void keep_contacts(struct series *series, size_t round, double *times) {
    series->p99[round] = percentile(times, CONTACTS, 0.99);
    series->value[round] = percentile(times, CONTACTS, 0.5);
}

void measure_raw_connect(struct session *session, struct row *row, size_t round) {
    double times[CONTACTS];
    for (size_t i = 0; i < CONTACTS; i++) {
        /* The owner is asked before and answers behind each one, so that it waits in accept
         * meanwhile. */
        struct request request = {.kind = ASK_FIRST_CONTACT, .number = 1};
        control_send_request(session->control, &request);
        usleep(SETTLE_US);
        times[i] = raw_first_contact_us(session->host, session->raw_port, session->memory);
        struct answer answer;
        control_receive_answer(session->control, &answer);
    }
    keep_contacts(&row->limits[0], round, times);
}

/* Every contact is that of a new engine: an endpoint that is opened again would find the old
 * connection. */
static void measure_xfer_connect(struct session *session, const char *uri, struct row *row,
                                 size_t round) {
    const struct options *options = session->options;
    double times[CONTACTS];
    for (size_t i = 0; i < CONTACTS; i++) {
        struct client client;
        client_open(&client, &options->mode, options->key, options->key_length);
        session_ask(session, ASK_RUN, 0, NULL);
        usleep(SETTLE_US);
        uint64_t start = now_ns();
        client_contact(&client, uri, &row->plan, session->memory);
        times[i] = (double)(now_ns() - start) / 1e3;
        session_ask(session, ASK_REST, 0, NULL);
        client_close(&client);
    }
    keep_contacts(&row->xfer, round, times);
}

static void verify_contact(struct session *session, const char *uri, const struct plan *plan) {
    const struct options *options = session->options;
    struct client client;
    client_open(&client, &options->mode, options->key, options->key_length);
    client_reach(&client, uri);
    client_prepare(&client, plan, session->memory);
    session_verify(session, &client, plan);
    client_forget(&client);
    client_close(&client);
}

void measure_connect(struct report *report) {
    const struct options *options = report->options;
    report->rows = calloc(1, sizeof report->rows[0]);
    report->row_count = 1;
    struct row *row = report->rows;
    row->kind = ROW_CONNECT;
    row->plan = (struct plan){.size = FIRST_CONTACT_BYTES, .window = 1, .count = 1};
    row->limits[0].name = "connect + 4 KiB";
    row->fair[0] = true;
    row->limit_count = 1;

    struct session session;
    char uri[300];
    session_open(&session, options, FIRST_CONTACT_BYTES, 0);
    session_engine(&session, uri, sizeof uri);
    verify_contact(&session, uri, &row->plan);
    for (size_t round = 0; round < options->rounds; round++) {
        row->core_to_core[round] = core_to_core_ns();
        measure_raw_connect(&session, row, round);
        measure_xfer_connect(&session, uri, row, round);
        row_compare(row, round);
    }
    session_ask(&session, ASK_ENGINE_END, 0, NULL);
    session_close(&session);
}
