/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight members, each a process, all under load with each other by prepared batches with
 * notifications. One is killed and comes back, again and again: the others go on as if nothing had
 * been, and rebuild only what leads to it. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scene.h"

enum { kMembers = 8, kVictim = 5, kPage = 4096, kPages = 4, kShare = kPages * kPage };
enum { kOurs = 100 * kMembers };
enum { kPauseMs = 8 }; /* of one pair between two batches: busy, but not only with this */

/* What one member tells of another. */
typedef struct PairTally {
    _Atomic uint64_t well, lost, stale, other; /* batches by their end */
    _Atomic uint64_t notified;                 /* batches of the other that arrived here */
    _Atomic uint64_t downs, restarts, connections;
} PairTally;

typedef struct Row {
    char uri[256];
    _Atomic int lives; /* how many times it began; it listens */
    xfer_ref_t inbox;
    uint64_t address;
    _Atomic int broken;
    PairTally pairs[kMembers];
} Row;

typedef struct Board {
    Row rows[kMembers];
} Board;

/* ---- the role ---- */

typedef struct Member Member;
typedef struct Way {
    xfer_ep_t *ep;
    xfer_batch_t *batch; /* prepared once, for the life of this member */
    xfer_ref_t ref;
    bool filled, asked, busy;
    uint64_t due;
} Way;

struct Member {
    int self;
    Board *board;
    xfer_engine_t *engine;
    uint8_t *inbox, *local;
    Way ways[kMembers];
};

static uint64_t key_of(int from, int to) {
    return (uint64_t)(from * kMembers + to);
}

static bool fill_batch(Member *member, int to) {
    Way *way = &member->ways[to];
    for (uint64_t i = 0; i < kPages; i++)
        if (xfer_batch_put(way->batch, member->local + i * kPage, &way->ref,
                           (uint64_t)member->self * kShare + i * kPage, kPage) != XFER_OK)
            return false;
    return way->filled = true;
}

/* The first ref fills the batch; those after a restart take the place of the one before. */
static bool found(Member *member, int to, const xfer_ref_t *ref) {
    Way *way = &member->ways[to];
    const xfer_ref_t old = way->ref;
    way->ref = *ref;
    if (!way->filled) return fill_batch(member, to);
    return xfer_batch_rebind(way->batch, &old, ref, NULL) == XFER_OK;
}

static bool hear(Member *member, const xfer_event_t *event) {
    PairTally *pairs = member->board->rows[member->self].pairs;
    PairTally *of_user = &pairs[event->user % kMembers];
    Way *way = &member->ways[event->user % kMembers];
    /* Not of a handle that the engine made, whose words have the highest bit. */
    const bool of_ours = event->user >= kOurs && event->user >> 63 == 0;
    switch (event->kind) {
    case XFER_EVENT_LOOKUP:
        way->asked = false;
        return event->status != XFER_OK || found(member, (int)event->user, event->data);
    case XFER_EVENT_BATCH:
        way->busy = false;
        if (event->status == XFER_OK)
            of_user->well++;
        else if (event->status == XFER_EPEERLOST)
            of_user->lost++;
        else if (event->status == XFER_ESTALE)
            of_user->stale++;
        else
            of_user->other++;
        if (event->status != XFER_ESTALE || way->asked) return true;
        way->asked = true;
        return xfer_ep_lookup(way->ep, "inbox", event->user, NULL, NULL) == XFER_OK;
    case XFER_EVENT_NOTIFY:
        if (event->status == XFER_OK) pairs[event->tag / kMembers].notified++;
        return event->tag % kMembers == (uint64_t)member->self;
    case XFER_EVENT_PEER_DOWN:
        of_user->downs += of_ours;
        return true;
    case XFER_EVENT_PEER_UP:
        of_user->restarts += of_ours && (event->flags & XFER_RESTARTED) != 0;
        return true;
    default:
        return true;
    }
}

static bool work(Member *member, uint64_t now) {
    for (int to = 0; to < kMembers; to++) {
        Way *way = &member->ways[to];
        if (to == member->self || now < way->due) continue;
        xfer_ep_stats_t stats;
        if (xfer_ep_stats(way->ep, &stats, sizeof stats) != XFER_OK) return false;
        member->board->rows[member->self].pairs[to].connections = stats.connections;
        if (!way->filled || way->busy) continue;
        xfer_submit_options_t options = {.size = sizeof options,
                                         .flags = XFER_SUBMIT_NOTIFY,
                                         .notify_key = key_of(member->self, to)};
        if (xfer_batch_submit(way->batch, (uint64_t)to, &options) != XFER_OK) return false;
        way->busy = true;
        way->due = now + kPauseMs;
    }
    return true;
}

static bool open_member(Member *member, const char *uri) {
    xfer_engine_options_t options = {.size = sizeof options,
                                     .dispatch = XFER_DISPATCH_POLL,
                                     .io_threads = XFER_NONE,
                                     .id = {(uint8_t)(member->self + 1)}};
    xfer_region_options_t lent = {.size = sizeof lent, .access = XFER_WRITE, .name = "inbox"};
    Row *row = &member->board->rows[member->self];
    xfer_region_t *region = NULL;
    member->inbox = calloc(kMembers, kShare);
    member->local = calloc(1, kShare);
    if (member->inbox == NULL || member->local == NULL ||
        xfer_engine_open(&options, &member->engine, NULL) != XFER_OK ||
        xfer_region_open(member->engine, &lent, member->inbox, kMembers * kShare, &region, NULL) !=
            XFER_OK ||
        xfer_region_ref(region, &row->inbox) != XFER_OK ||
        xfer_engine_listen(member->engine, uri, NULL, row->uri, sizeof row->uri, NULL) != XFER_OK)
        return false;
    row->address = (uint64_t)(uintptr_t)member->inbox;
    row->lives++;
    return true;
}

static bool open_ways(Member *member) {
    for (int to = 0; to < kMembers; to++) {
        Way *way = &member->ways[to];
        xfer_ep_options_t options = {.size = sizeof options, .user = kOurs + (uint64_t)to};
        xfer_op_options_t patient = {.size = sizeof patient, .timeout_ms = kPatience};
        if (to == member->self) continue;
        if (xfer_ep_open(member->engine, member->board->rows[to].uri, &options, &way->ep, NULL) !=
                XFER_OK ||
            xfer_batch_open(way->ep, NULL, &way->batch, NULL) != XFER_OK ||
            xfer_ep_lookup(way->ep, "inbox", (uint64_t)to, &patient, NULL) != XFER_OK)
            return false;
    }
    return true;
}

/* Takes part until it is killed. */
static int member_role(const char *argument) {
    Member member = {.self = -1};
    int fd = -1;
    char uri[256];
    if (sscanf(argument, "%d %d %255s", &member.self, &fd, uri) != 3) return 2;
    member.board = shared_map(fd, sizeof(Board));
    if (member.board == NULL || !open_member(&member, uri)) return 3;
    for (int i = 0; i < kMembers; i++)
        while (member.board->rows[i].lives == 0)
            usleep(500);
    if (!open_ways(&member)) return 4;
    for (;;) {
        xfer_event_t events[32];
        uint32_t count = 0;
        if (!work(&member, now_ms()) ||
            xfer_engine_poll(member.engine, events, sizeof events[0], 32, 1, &count) != XFER_OK)
            break;
        for (uint32_t i = 0; i < count; i++)
            if (!hear(&member, &events[i]))
                member.board->rows[member.self].broken = (int)events[i].kind;
    }
    member.board->rows[member.self].broken = -1;
    return 5;
}

/* ---- the test ---- */

static void start_member(Peer *peer, int self, const Shared *board, const char *uri) {
    char argument[400];
    snprintf(argument, sizeof argument, "%d %d %s", self, board->fd, uri);
    peer_start_role(peer, "member", argument);
}

/* Every batch that could be told has been: each pair moves, the victim's both ways too. */
typedef struct Counts {
    uint64_t well[kMembers][kMembers];
} Counts;

static Counts counts_of(const Board *board) {
    Counts counts;
    for (int i = 0; i < kMembers; i++)
        for (int j = 0; j < kMembers; j++)
            counts.well[i][j] = board->rows[i].pairs[j].well;
    return counts;
}

static bool all_moved(const Board *board, const Counts *since) {
    for (int i = 0; i < kMembers; i++)
        for (int j = 0; j < kMembers; j++)
            if (i != j && board->rows[i].pairs[j].well == since->well[i][j]) return false;
    return true;
}

static void wait_all_moved(const Board *board, const Counts *since) {
    const uint64_t end = now_ms() + kPatience;
    while (!all_moved(board, since)) {
        for (int i = 0; i < kMembers; i++)
            assert_int_equal(board->rows[i].broken, 0);
        if (now_ms() > end) fail_msg("a pair of members moves nothing any more");
        usleep(500);
    }
}

static bool survivor(int member) {
    return member != kVictim;
}

/* `then` as it was: regions where they were, refs that name them, connections that were never made
 * anew. */
static void check_survivors(const Board *then, const Board *now, uint64_t rejoins) {
    for (int i = 0; i < kMembers; i++) {
        if (!survivor(i)) continue;
        const Row *row = &now->rows[i];
        assert_memory_equal(&then->rows[i].inbox, &row->inbox, sizeof row->inbox);
        assert_int_equal(then->rows[i].address, row->address);
        assert_int_equal(row->lives, 1);
        for (int j = 0; j < kMembers; j++) {
            const PairTally *before = &then->rows[i].pairs[j], *tally = &row->pairs[j];
            if (i == j) continue;
            assert_int_equal(tally->other, 0);
            if (survivor(j)) {
                assert_int_equal(tally->connections, before->connections);
                assert_int_equal(tally->downs, 0);
                assert_int_equal(tally->lost + tally->stale, 0);
            } else {
                assert_int_equal(tally->restarts, rejoins);
                assert_int_equal(tally->connections - before->connections, rejoins);
            }
        }
    }
}

static void test_rejoin(void **state) {
    (void)state;
    const int rejoins = rounds_of(100);
    uint64_t seed = first_seed("test_rejoin");
    Shared shared = shared_new(sizeof(Board));
    Board *board = (Board *)shared.memory;
    static Board then;
    Peer peers[kMembers];
    Counts none = {.well = {{0}}};
    Times times = {.count = 0};
    for (int i = 0; i < kMembers; i++)
        start_member(&peers[i], i, &shared, own_address());
    wait_all_moved(board, &none);
    usleep(100000);
    memcpy(&then, board, sizeof then);
    for (int round = 0; round < rejoins; round++) {
        char uri[256];
        usleep((useconds_t)draw(&seed, 20000));
        peer_kill(&peers[kVictim]);
        strcpy(uri, board->rows[kVictim].uri);
        usleep((useconds_t)draw(&seed, 20000));
        const Counts counts = counts_of(board);
        const uint64_t began = now_us();
        start_member(&peers[kVictim], kVictim, &shared, uri);
        wait_all_moved(board, &counts);
        times_add(&times, now_us() - began);
    }
    usleep(50000);
    check_survivors(&then, board, (uint64_t)rejoins);
    for (int i = 0; i < kMembers; i++)
        peer_kill(&peers[i]);
    times_print(&times, "rejoin of one of 8, from its start until all pairs move", "under load");
    shared_drop(&shared);
}

static const struct CMUnitTest tests[] = {TEST(test_rejoin)};

TEST_MAIN_AFTER(tests, peer_role("member", member_role))
