/* SPDX-License-Identifier: Apache-2.0
 *
 * xfer_perf: how fast libxfer is, beside how fast the machine is.
 *
 * Two processes: the owner of the memory (server.c), and the initiator, which runs the measurement
 * (point.c, connect.c, idle.c), first by plain sockets (limits*.c), then by libxfer (engine.c),
 * round by round. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "point.h"
#include "server.h"

static void measure(const struct options *options) {
    struct report report = {.options = options, .with_xfer = options->command != COMMAND_LIMITS};
    struct utsname system;
    if (uname(&system) == 0)
        printf("xfer_perf %s, libxfer %s, %s %s\n", command_name(options->command),
               xfer_version_string(), system.sysname, system.release);
    switch (options->command) {
    case COMMAND_CONNECT:
        measure_connect(&report);
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
    } else if (options.serve != NULL) {
        serve_forever(options.serve, &server);
    } else {
        measure(&options);
    }
    return 0;
}
