/* SPDX-License-Identifier: Apache-2.0
 *
 * lend [NAME=FILE ...]: lends the bytes of each file as a region of that name, prints its URI, and
 * goes on until stdin ends. What the manifest of a tree says is the caller's to make up. */
#include <poll.h>
#include <string.h>

#include "../../examples/c/must.h"

enum { MOST = 4, LIMIT = 1 << 20 };

static void *read_file(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(LIMIT);
    EXPECT(file != NULL && bytes != NULL);
    *length = fread(bytes, 1, LIMIT, file);
    EXPECT(*length > 0 && *length < LIMIT);
    fclose(file);
    return bytes;
}

int main(int argc, char **argv) {
    xfer_error_t error = {0};
    const xfer_engine_options_t options = {.size = sizeof options, .dispatch = XFER_DISPATCH_POLL};
    xfer_engine_t *engine = NULL;
    xfer_region_t *regions[MOST] = {NULL};
    void *memory[MOST] = {NULL};
    EXPECT(argc <= 1 + MOST);
    MUST_ERR(xfer_engine_open(&options, &engine, &error));
    for (int i = 1; i < argc; i++) {
        char *path = strchr(argv[i], '=');
        size_t length;
        EXPECT(path != NULL);
        *path++ = '\0';
        memory[i - 1] = read_file(path, &length);
        const xfer_region_options_t lent = {
            .size = sizeof lent, .access = XFER_READ, .name = argv[i]};
        MUST_ERR(xfer_region_open(engine, &lent, memory[i - 1], length, &regions[i - 1], &error));
    }
    char uri[256];
    MUST_ERR(xfer_engine_listen(engine, "tcp://127.0.0.1:0", NULL, uri, sizeof uri, &error));
    printf("listening at %s\n", uri);
    fflush(stdout);

    int32_t fd = -1;
    MUST(xfer_engine_fd(engine, &fd));
    struct pollfd watched[] = {{.fd = 0, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    while (poll(watched, 2, -1) > 0 && !watched[0].revents) {
        xfer_event_t event;
        uint32_t count = 1;
        while (count == 1)
            MUST(xfer_engine_poll(engine, &event, sizeof event, 1, 0, &count));
    }
    MUST(xfer_engine_join(engine, XFER_NONE));
    for (int i = 0; i < MOST; i++) {
        (void)xfer_region_close(
            regions[i]); /* frees the handle: the region ended with its engine */
        free(memory[i]);
    }
    return 0;
}
