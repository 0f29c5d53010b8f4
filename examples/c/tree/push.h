/* SPDX-License-Identifier: Apache-2.0
 *
 * A push is a fetch that the other side does. The pusher lends its tree as a server would,
 * connects, and waits; the server sees a peer arrive, finds that it lends a tree and a verdict to
 * be written, fetches the one and puts the other. So the pusher needs no port of its own, and the
 * server lends no memory that strangers may write.
 */
#ifndef TREE_PUSH_H
#define TREE_PUSH_H

#include "session.h"

/* The pusher's side: offers what the session already lends to the server at `uri`, and waits for
 * its verdict. */
bool push_offer(struct session *session, const char *uri, uint64_t bytes, char *answer, size_t cap,
                struct why *why);

/* The name under which a pusher lends the place for the verdict: who has it is a visitor. */
#define PUSH_VERDICT "push/verdict"

/* The server's side: the visitor's tree goes to `directory`/push-N, where N is the first free one
 * above `number`, which then becomes N; `directory` NULL refuses. Takes the visitor. */
bool push_accept(struct session *session, struct visitor visitor, const char *directory,
                 unsigned *number);

#endif
