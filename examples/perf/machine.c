/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

/* Processors without a line of that name are told by their architecture. */
static void look_at_cpu(char *model, size_t capacity) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (file == NULL) return;
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(model, capacity, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    fclose(file);
}

void machine_look(struct machine *machine) {
    *machine = (struct machine){0};
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL)
        strftime(machine->date, sizeof machine->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    struct utsname system;
    if (uname(&system) != 0) return;
    snprintf(machine->host, sizeof machine->host, "%s", system.nodename);
    snprintf(machine->kernel, sizeof machine->kernel, "%s %s", system.sysname, system.release);
    snprintf(machine->cpu, sizeof machine->cpu, "%s", system.machine);
    look_at_cpu(machine->cpu, sizeof machine->cpu);
}
