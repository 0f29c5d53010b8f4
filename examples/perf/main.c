/* SPDX-License-Identifier: Apache-2.0
 *
 * xfer_perf: how fast libxfer is, beside how fast the machine is.
 *
 * Two processes: the owner of the memory (server.c), and the initiator, which runs the measurement
 * (point.c, connect.c, idle.c), first by plain sockets (limits*.c), then by libxfer (engine.c),
 * round by round. Apart from that a storm (storm.c), of many engines (crowd.c) that meet at once.
 */
#include <stdio.h>
#include <stdlib.h>

#include "point.h"
#include "server.h"
#include "storm.h"

static int measure(const struct options *options) {
    struct report report = {.options = options, .with_xfer = options->command != COMMAND_LIMITS};
    machine_look(&report.machine);
    printf("xfer_perf %s, libxfer %s, %s, %s, %s\n", command_name(options->command),
           xfer_version_string(), report.machine.kernel, report.machine.cpu, report.machine.date);
    switch (options->command) {
    case COMMAND_CONNECT:
        (options->engines > 0 ? measure_storm : measure_connect)(&report);
        break;
    case COMMAND_IDLE:
        measure_idle(&report);
        break;
    default:
        measure_points(&report);
        break;
    }
    report_print(&report);
    if (options->json != NULL) report_write_json(&report, options->json);
    if (options->plot != NULL) report_write_plot(&report, options->plot);
    free(report.rows);
    return report.storm.engines == 0 || storm_passed(&report.storm, options->rounds) ? 0 : 1;
}

int main(int argc, char **argv) {
    struct options options;
    options_parse(argc, argv, &options);
    struct server_options server = {.host = "127.0.0.1",
                                    .key = options.key,
                                    .key_length = options.key_length,
                                    .insecure = options.insecure};
    if (options.role_fd >= 0) {
        serve_one(options.role_fd, &server);
    } else if (options.crowd_fd >= 0) {
        storm_take_part(options.crowd_fd);
    } else if (options.serve != NULL) {
        serve_forever(options.serve, &server);
    } else {
        return measure(&options);
    }
    return 0;
}
