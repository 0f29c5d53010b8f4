/* SPDX-License-Identifier: Apache-2.0
 *
 * xfer_tree: whole directory trees between processes.
 *
 *   xfer_tree serve DIR [--listen URI] [--accept DIR]   lends DIR; takes pushes if told where to
 *   xfer_tree fetch URI DEST                            brings a server's tree to DEST
 *   xfer_tree push SRC URI                              brings SRC to a server
 *
 * A tree is lent as two regions: "tree/manifest", which says what there is and where the bytes of
 * each file are, and "tree/data". pack.c makes them, fetch.c brings them over, writer.c makes files
 * of them, partial.c keeps those of a fetch that is not complete, push.c turns a fetch around,
 * session.c waits for events.
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
    struct session_options session;
    bool verify;
    bool help;
    bool version;
    const char *arguments[3];
    int argument_count;
};

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
    printf("%s %llu files, %.1f MB of %s", verb,
           (unsigned long long)manifest_file_count(&pack->manifest), (double)pack->file_bytes / 1e6,
           directory);
    if (pack->skipped)
        printf(" (%llu special or unreadable ones skipped)", (unsigned long long)pack->skipped);
    printf("\n");
    fflush(stdout);
}

static bool serve_until_stopped(struct session *session, const struct options *options,
                                struct why *why) {
    unsigned pushes = 0;
    unsigned number = 0; /* of the last one */
    session->visiting_card = PUSH_VERDICT;
    while (!session_stopped()) {
        xfer_event_t event;
        xfer_status_t status = session_next(session, &event, 200);
        if (status != XFER_OK) return fail_status(why, "polling", status);
        while (session->visitor_count > 0) {
            struct visitor visitor = session->visitors[--session->visitor_count];
            if (push_accept(session, visitor, options->accept, &number)) pushes++;
        }
    }
    xfer_engine_stats_t stats;
    if (xfer_engine_stats(session->engine, &stats, sizeof stats) == XFER_OK) {
        printf(
            "sent %.1f MB over sockets, took %u pushes; processes of this host read without "
            "asking\n",
            (double)stats.served_get / 1e6, pushes);
    }
    return true;
}

static bool serve(struct session *session, const struct options *options, struct why *why) {
    struct stat info;
    if (options->accept && (stat(options->accept, &info) != 0 || !S_ISDIR(info.st_mode))) {
        return fail(why, "%s: no such directory", options->accept);
    }
    struct pack pack = {0};
    uint8_t *manifest = NULL;
    bool ok = lend_tree(session, options->arguments[0], &pack, &manifest, why);
    char uri[256];
    if (ok) ok = session_listen(session, options->listen, uri, sizeof uri, why);
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
    const struct fetch_options how = {.label = "fetch", .verify = options->verify};
    if (!fetch_tree(session, session->server, options->arguments[1], &how, &fetched, why))
        return false;
    char text[512];
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

static const char kHelp[] =
    "usage: xfer_tree serve DIR [--listen URI] [--accept DIR]   lends DIR\n"
    "       xfer_tree fetch URI DEST [--verify]                 brings a server's tree to DEST\n"
    "       xfer_tree push SRC URI                              brings SRC to a server\n"
    "\n"
    "  --listen URI   where to serve (tcp://127.0.0.1:0: any free port of this host)\n"
    "  --accept DIR   take pushes, as DIR/push-1 and so on\n"
    "  --verify       compare all bytes with the server's when they are written\n"
    "  --key FILE     the secret of 32 to 256 bytes that both sides must have; needed to serve\n"
    "                 beyond this host\n"
    "  --lanes N      data connections to each peer; more than one help where the delay is long\n"
    "  --help, --version\n"
    "\n"
    "Kept: files, directories, links, permission bits, times of modification, holes. Dropped:\n"
    "owners, set-uid, set-gid and sticky bits, extended attributes; hard links become files of\n"
    "their own; special files are left out. An interrupted fetch is in DEST.part, and the same\n"
    "command goes on from there.\n";

static bool parse_lanes(const char *word, uint32_t *lanes) {
    char *end;
    unsigned long number = strtoul(word, &end, 10);
    *lanes = (uint32_t)number;
    return number > 0 && number <= UINT32_MAX && *end == '\0';
}

static bool parse(int argc, char **argv, struct options *options) {
    static const struct option known[] = {
        {"listen", required_argument, NULL, 'l'}, {"accept", required_argument, NULL, 'a'},
        {"key", required_argument, NULL, 'k'},    {"lanes", required_argument, NULL, 'n'},
        {"verify", no_argument, NULL, 'v'},       {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {NULL, 0, NULL, 0}};
    *options = (struct options){.listen = "tcp://127.0.0.1:0"};
    for (int letter; (letter = getopt_long(argc, argv, "h", known, NULL)) != -1;) {
        if (letter == 'l')
            options->listen = optarg;
        else if (letter == 'a')
            options->accept = optarg;
        else if (letter == 'k')
            options->session.key = optarg;
        else if (letter == 'v')
            options->verify = true;
        else if (letter == 'h')
            options->help = true;
        else if (letter == 'V')
            options->version = true;
        else if (letter != 'n' || !parse_lanes(optarg, &options->session.lanes))
            return false;
    }
    for (; optind < argc; optind++) {
        if (options->argument_count == 3) return false;
        options->arguments[options->argument_count++] = argv[optind];
    }
    return true;
}

static const struct role {
    const char *name;
    int argument_count;
    bool (*run)(struct session *session, const struct options *options, struct why *why);
} kRoles[] = {{"serve", 1, serve}, {"fetch", 2, fetch}, {"push", 2, push}};

/* The role that the first argument names, which is then none any more. */
static const struct role *take_role(struct options *options) {
    for (size_t i = 0; options->argument_count > 0 && i < sizeof kRoles / sizeof kRoles[0]; i++) {
        if (strcmp(options->arguments[0], kRoles[i].name) != 0) continue;
        options->argument_count--;
        memmove(options->arguments, options->arguments + 1,
                (size_t)options->argument_count * sizeof options->arguments[0]);
        return options->argument_count == kRoles[i].argument_count ? &kRoles[i] : NULL;
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct options options;
    bool understood = parse(argc, argv, &options);
    if (understood && options.help) return fputs(kHelp, stdout) < 0;
    if (understood && options.version) return printf("xfer_tree %s\n", xfer_version_string()) < 0;
    const struct role *role = understood ? take_role(&options) : NULL;
    if (!role || (options.verify && role->run != fetch)) {
        fputs(kHelp, stderr);
        return 2;
    }
    session_stop_on_signals();
    struct session session;
    struct why why;
    bool ok = session_open(&session, &options.session, &why) && role->run(&session, &options, &why);
    session_close(&session);
    if (!ok) fprintf(stderr, "xfer_tree: %s\n", why.text);
    return ok ? 0 : session_stopped() ? 130 : 1;
}
