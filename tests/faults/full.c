/* SPDX-License-Identifier: Apache-2.0
 *
 * A listener in a process that is out of descriptors: those who come wait in the backlog, the loop
 * rests meanwhile, and they are accepted once there are descriptors again. */
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "phases.h"

enum { kStrangers = 4, kFullMs = 600, kMostCpuMs = 150 };

static uint64_t cpu_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

static uint64_t accepted(Host *server) {
    xfer_engine_stats_t stats;
    must(xfer_engine_stats(server->engine, &stats, sizeof stats), "xfer_engine_stats");
    return stats.accepts;
}

void run_full(const Mode *mode) {
    static Host server, client;
    int strangers[kStrangers];
    unsigned port = 0;
    xfer_region_t *region = NULL;
    host_open(&server, mode);
    host_listen(&server);
    must(region_try(&server, &region, NULL), "xfer_region_open");
    if (sscanf(server.uri, "tcp://127.0.0.1:%u", &port) != 1) fail_case("%s", server.uri);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < kStrangers; i++)
        strangers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    inject_arm(&(Fault){.call = kDescriptors, .nth = 1});
    for (int i = 0; i < kStrangers; i++)
        if (connect(strangers[i], (struct sockaddr *)&address, sizeof address) != 0)
            fail_case("the backlog takes nobody");
    uint64_t cpu = cpu_ms();
    for (uint64_t end = now_ms() + kFullMs; now_ms() < end; usleep(10000))
        turn(&server, NULL);
    cpu = cpu_ms() - cpu;
    uint64_t early = accepted(&server);
    inject_disarm();
    if (cpu > kMostCpuMs) fail_case("%llu ms of CPU while full", (unsigned long long)cpu);
    if (early != 0) fail_case("accepted without descriptors");

    for (uint64_t end = now_ms() + kLimitMs; accepted(&server) < kStrangers;) {
        turn(&server, NULL);
        if (now_ms() > end) fail_case("accepting does not go on");
    }
    for (int i = 0; i < kStrangers; i++)
        close(strangers[i]);
    host_open(&client, mode);
    talk(&client, &server);
    host_end(&client);
    must(xfer_region_close(region), "xfer_region_close");
    host_end(&server);
}
