/* SPDX-License-Identifier: Apache-2.0
 *
 * xfer_tree: whole directory trees between processes.
 *
 *   xfer_tree serve DIR [--listen URI] [--accept DIR]   lends DIR; takes pushes if told where to
 *   xfer_tree fetch URI DEST                            brings a server's tree to DEST
 *   xfer_tree push SRC URI                              brings SRC to a server
 *
 * All of them take --key FILE, the secret that both sides must have.
 *
 * A tree is lent as two regions: "tree/manifest", which says where the bytes of each file are, and
 * "tree/data". pack.c makes them, fetch.c brings them over, push.c turns a fetch around, session.c
 * waits for events.
 */
#define _POSIX_C_SOURCE 200809L
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch.h"
#include "pack.h"
#include "push.h"

struct options {
    const char *listen;
    const char *accept;
    const char *key;
    const char *arguments[2];
    int argument_count;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number) {
    (void)number;
    stopped = 1;
}

/* The first Ctrl-C ends in good order, after the push under way; the second at once. */
static void stop_on_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Packs a directory and lends it. `manifest` is to be freed when the session has ended. */
static bool lend_tree(struct session *session, const char *directory, struct pack *pack,
                      uint8_t **manifest, struct why *why) {
    if (!pack_directory(pack, directory, why)) return false;
    uint64_t size = 0;
    *manifest = manifest_encode(&pack->manifest, &size);
    if (!*manifest) return fail(why, "out of memory");
    return session_lend(session, TREE_DATA, XFER_READ, pack->data, pack->data_size, why) &&
           session_lend(session, TREE_MANIFEST, XFER_READ, *manifest, size, why);
}

static void say_tree(const char *verb, const char *directory, const struct pack *pack) {
    printf("%s %llu files, %.1f MB of %s", verb, (unsigned long long)pack->manifest.count,
           (double)pack->file_bytes / 1e6, directory);
    if (pack->skipped)
        printf(" (%llu links, special or unreadable files skipped)",
               (unsigned long long)pack->skipped);
    printf("\n");
    fflush(stdout);
}

static bool serve_until_stopped(struct session *session, const struct options *options,
                                struct why *why) {
    unsigned pushes = 0;
    session->visiting_card = PUSH_VERDICT;
    while (!stopped) {
        xfer_event_t event;
        xfer_status_t status = session_next(session, &event, 200);
        if (status != XFER_OK) return fail_status(why, "polling", status);
        while (session->visitor_count > 0) {
            struct visitor visitor = session->visitors[--session->visitor_count];
            if (push_accept(session, visitor, options->accept, pushes + 1)) pushes++;
        }
    }
    xfer_engine_stats_t stats;
    if (xfer_engine_stats(session->engine, &stats, sizeof stats) == XFER_OK) {
        printf("sent %.1f MB over sockets, took %u pushes; neighbours fetch without asking\n",
               (double)stats.served_get / 1e6, pushes);
    }
    return true;
}

static bool serve(struct session *session, const struct options *options, struct why *why) {
    struct stat info;
    if (options->accept && (stat(options->accept, &info) != 0 || !S_ISDIR(info.st_mode))) {
        return fail(why, "%s: no such directory", options->accept);
    }
    stop_on_signals();
    struct pack pack = {0};
    uint8_t *manifest = NULL;
    bool ok = lend_tree(session, options->arguments[0], &pack, &manifest, why);
    char uri[256];
    xfer_error_t error;
    if (ok &&
        xfer_engine_listen(session->engine, options->listen, uri, sizeof uri, &error) != XFER_OK) {
        ok = fail(why, "cannot listen at %s: %s", options->listen, error.message);
    }
    if (ok) {
        say_tree("serving", options->arguments[0], &pack);
        printf("listening at %s\n", uri);
        fflush(stdout);
        ok = serve_until_stopped(session, options, why);
    }
    session_close(session); /* before the memory that it lends */
    pack_free(&pack);
    free(manifest);
    return ok;
}

static bool fetch(struct session *session, const struct options *options, struct why *why) {
    struct fetched fetched;
    if (!session_connect(session, options->arguments[0], why)) return false;
    if (!fetch_tree(session, session->server, options->arguments[1], "fetch", &fetched, why))
        return false;
    char text[256];
    fetched_text(&fetched, text, sizeof text);
    printf("fetched %s, %s\n", text, session_path(session));
    return true;
}

static bool push(struct session *session, const struct options *options, struct why *why) {
    struct pack pack = {0};
    uint8_t *manifest = NULL;
    char answer[512];
    bool ok =
        lend_tree(session, options->arguments[0], &pack, &manifest, why) &&
        push_offer(session, options->arguments[1], pack.data_size, answer, sizeof answer, why);
    if (ok) printf("pushed %s\n", answer);
    session_close(session);
    pack_free(&pack);
    free(manifest);
    return ok;
}

static bool parse(int argc, char **argv, struct options *options) {
    static const struct option known[] = {{"listen", required_argument, NULL, 'l'},
                                          {"accept", required_argument, NULL, 'a'},
                                          {"key", required_argument, NULL, 'k'},
                                          {NULL, 0, NULL, 0}};
    *options = (struct options){.listen = "tcp://127.0.0.1:0"};
    for (int letter; (letter = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (letter == 'l')
            options->listen = optarg;
        else if (letter == 'a')
            options->accept = optarg;
        else if (letter == 'k')
            options->key = optarg;
        else
            return false;
    }
    for (; optind < argc; optind++) {
        if (options->argument_count == 2) return false;
        options->arguments[options->argument_count++] = argv[optind];
    }
    return true;
}

static const struct role {
    const char *name;
    int argument_count;
    bool (*run)(struct session *session, const struct options *options, struct why *why);
} kRoles[] = {{"serve", 1, serve}, {"fetch", 2, fetch}, {"push", 2, push}};

int main(int argc, char **argv) {
    struct options options;
    const struct role *role = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof kRoles / sizeof kRoles[0]; i++) {
        if (strcmp(argv[1], kRoles[i].name) == 0) role = &kRoles[i];
    }
    if (!role || !parse(argc - 1, argv + 1, &options) ||
        options.argument_count != role->argument_count) {
        fprintf(stderr,
                "usage: xfer_tree serve DIR [--listen URI] [--accept DIR] [--key FILE]\n"
                "       xfer_tree fetch URI DEST [--key FILE]\n"
                "       xfer_tree push SRC URI [--key FILE]\n");
        return 2;
    }
    struct session session;
    struct why why;
    bool ok = session_open(&session, options.key, &why) && role->run(&session, &options, &why);
    session_close(&session);
    if (!ok) fprintf(stderr, "xfer_tree: %s\n", why.text);
    return ok ? 0 : 1;
}
