/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of libxfer: refs and identities for command lines, environment variables and JSON; names of numbers, for
 * logs; and the options of an engine by name, for command lines and configuration files.
 *
 * Words and rules are those of xfer.h. Only xfer_engine_kinds and xfer_engine_transports need an engine. XFER_ENOSPC:
 * the text and its NUL need more than `cap` bytes; then `text` holds what fits.
 */
#ifndef XFER_TEXT_H
#define XFER_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "xfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cdef:begin */

/* ---- refs and identities ---- */

/* Sizes of the buffers of xfer_ref_text, xfer_id_text and xfer_native_text, with the NUL. */
enum {
    XFER_REF_TEXT_SIZE = 129,
    XFER_ID_TEXT_SIZE = 50,
    XFER_NATIVE_TEXT_SIZE = 128 /* of most; what the system says may be longer */
};

/* A ref as 128 characters of base64url (RFC 4648, section 5: letters, digits, "-" and "_"), without padding. A ref has
 * one such text, so texts may be compared; it begins with a letter, never with "-". Whoever reads it and has the key
 * may use the ref.
 * Returns: XFER_OK; XFER_EINVAL if these bytes are no ref; XFER_EVERSION; XFER_ENOSPC. */
XFER_API xfer_status_t xfer_ref_text(const xfer_ref_t *ref, char *text, uint64_t cap);

/* Reads a ref from the text that xfer_ref_text writes. On an error *ref is left alone.
 * Returns: XFER_OK; XFER_EINVAL if it is anything else, also with a space or padding around; XFER_EVERSION. */
XFER_API xfer_status_t xfer_ref_parse(const char *text, xfer_ref_t *ref);

/* An identity as 32 lower-case hexadecimal digits, "-", and 16 more of the incarnation, the most significant first;
 * xfer_engine_describe has the two as "id" and "incarnation".
 * Returns: XFER_OK; XFER_ENOSPC. */
XFER_API xfer_status_t xfer_id_text(const xfer_id_t *id, char *text, uint64_t cap);

/* Reads an identity from the text that xfer_id_text writes. On an error *id is left alone.
 * Returns: XFER_OK; XFER_EINVAL if it is anything else. */
XFER_API xfer_status_t xfer_id_parse(const char *text, xfer_id_t *id);

/* ---- names ---- */

/* Enumerates every status this library can return, so that bindings can check theirs.
 * Returns: XFER_OK, or XFER_ENOTFOUND past the last index. */
XFER_API xfer_status_t xfer_status_at(uint32_t index, xfer_status_t *status);

/* The name of an event's kind, such as "XFER_EVENT_PUT".
 * Returns: a static string, "XFER_EVENT_UNKNOWN" for a number that is none. */
XFER_API const char *xfer_event_name(uint32_t kind);

/* The name of a kind of memory, such as "XFER_MEM_HOST".
 * Returns: a static string, "XFER_MEM_UNKNOWN" for a number that is none. */
XFER_API const char *xfer_memory_name(uint32_t kind);

/* The name of a transport, such as "XFER_TRANSPORT_TCP".
 * Returns: a static string, "XFER_TRANSPORT_UNKNOWN" for a number that is none. */
XFER_API const char *xfer_transport_name(uint32_t transport);

/* The kinds of memory that this engine lends and moves: bit 1 << XFER_MEM_* of each.
 * Returns: XFER_OK. */
XFER_API xfer_status_t xfer_engine_kinds(xfer_engine_t *engine, uint64_t *mask);

/* The transports that this engine uses, as its option and the environment have restricted them: bit
 * 1 << XFER_TRANSPORT_* of each.
 * Returns: XFER_OK. */
XFER_API xfer_status_t xfer_engine_transports(xfer_engine_t *engine, uint64_t *mask);

/* What the origin and native_code of an event or an xfer_error_t mean: the words of the system or library that the code
 * comes from, such as "Connection refused"; "the peer answered XFER_EAUTH"; else the numbers, "origin 4, code 7".
 * Returns: XFER_OK; XFER_ENOSPC. */
XFER_API xfer_status_t xfer_native_text(uint32_t origin, int32_t native_code, char *text, uint64_t cap);

/* ---- engine options by name ---- */

/* How the text of an option is read. */
enum {
    XFER_OPTION_NUMBER = 1, /* decimal digits; "none", where `values` has it, is XFER_NONE */
    XFER_OPTION_TEXT = 2,   /* as it is */
    XFER_OPTION_FLAG = 3,   /* yes, true, on or 1; no, false, off or 0 */
    XFER_OPTION_HEX = 4,    /* all bytes of the field, two hexadecimal digits each */
    XFER_OPTION_CHOICE = 5  /* one of the words in `values` */
};

/* All of it are static strings. */
typedef struct xfer_option_info {
    const char *name;
    const char *values; /* what it may be, such as "thread|loop|poll", "NUMBER|none" or "TEXT" */
    const char *help;   /* what it means, in less than a line */
    uint32_t kind;      /* XFER_OPTION_* */
    uint32_t reserved;
} xfer_option_info_t;

/* Enumerates the options that xfer_engine_option_set knows.
 * Returns: XFER_OK, or XFER_ENOTFOUND past the last index. */
XFER_API xfer_status_t xfer_engine_option_at(uint32_t index, xfer_option_info_t *info, uint32_t info_size);

/* Sets one field, or one flag, of `options`, whose `size` is set. Options are named as the fields of
 * xfer_engine_options_t ("io_threads"), and as the XFER_ENGINE_* flags in lower case ("checksum"). As in the struct, 0
 * is the default. `blob` and `key` are the bytes of the text; keep keys out of command lines, which other users see.
 * No text stands for uv_loop, on_event and on_log, which are of this process, nor for rdma, cuda and tls, which point
 * to structs of their own; size, flags, blob_length and key_length follow from the others. Whether a number is in
 * range, xfer_engine_open tells. On an error nothing is changed.
 * Returns: XFER_OK; XFER_ENOTFOUND if no option has that name; XFER_EINVAL if the text is none of its values, or the
 *          struct is of an earlier version, without that field.
 * Thread: one at a time for one struct.
 * Ownership: transports, advertise, blob and key point into the text: it must live until xfer_engine_open. */
XFER_API xfer_status_t xfer_engine_option_set(xfer_engine_options_t *options, const char *name, const char *text,
                                              xfer_error_t *err);

/* cdef:end */

#ifdef __cplusplus
}
#endif

#endif
