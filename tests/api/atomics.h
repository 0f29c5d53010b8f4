/* SPDX-License-Identifier: Apache-2.0
 *
 * Two engines, and words of the one that the other changes. */
#ifndef XFER_TESTS_API_ATOMICS_H
#define XFER_TESTS_API_ATOMICS_H

#include "fixture.h"

typedef struct Words {
    Host *server, *client;
    xfer_ep_t *ep; /* the client's */
    xfer_region_t *region;
    uint64_t *memory;
    xfer_ref_t ref; /* of all of it, for XFER_READ | XFER_ATOMIC */
} Words;

/* `options`: of both engines; NULL: as the mode has them. */
void words_open(Words *words, const Mode *mode, uint64_t count, bool made,
                const xfer_engine_options_t *options);
/* Another region of the same engines, in memory of the caller's, or, if `made`, of the engine's. */
void words_of(Words *words, uint64_t count, bool made);
/* Waits: the status, from the call or from its event, whose flags are looked at. */
xfer_status_t atomic_now(const Words *words, uint32_t op, uint64_t *result, uint64_t offset,
                         uint64_t operand, uint64_t compare);
/* Puts another number of 8 bytes at byte `at` of a ref, and makes its sum right again. */
void forge(xfer_ref_t *ref, size_t at, uint64_t number);

/* Of a word that a peer may change: TSan does not see what orders memory that is shared by mapping.
 */
#define WORD(place) __atomic_load_n(&(place), __ATOMIC_SEQ_CST)
#define SET_WORD(place, value) __atomic_store_n(&(place), (value), __ATOMIC_SEQ_CST)

#endif
