/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xfer/xfer.h>

static uint64_t parse_number(const char *text, char **end) {
    errno = 0;
    if (!isdigit((unsigned char)text[0])) errx(2, "%s: not a number", text);
    uint64_t number = strtoull(text, end, 10);
    int shift = 0;
    if (**end == 'K') shift = 10;
    if (**end == 'M') shift = 20;
    if (**end == 'G') shift = 30;
    if (shift != 0) (*end)++;
    if (errno != 0 || number == 0 || number > (UINT64_MAX >> 1) >> shift)
        errx(2, "%s: out of range", text);
    return number << shift;
}

uint64_t parse_one(const char *text) {
    char *end;
    uint64_t number = parse_number(text, &end);
    if (*end != '\0') errx(2, "%s: not a number", text);
    return number;
}

struct list parse_list(const char *text) {
    struct list list = {.count = 0};
    for (;;) {
        if (list.count == MAX_SIZES) errx(2, "%s: too many", text);
        char *end;
        list.values[list.count++] = parse_number(text, &end);
        if (*end == '\0') return list;
        if (*end != ',') errx(2, "%s: not a list of numbers", text);
        text = end + 1;
    }
}

uint32_t parse_choice(const char *text) {
    if (strcmp(text, "default") == 0) return 0;
    if (strcmp(text, "none") == 0) return XFER_NONE;
    uint64_t number = parse_one(text);
    if (number >= XFER_NONE) errx(2, "%s: out of range", text);
    return (uint32_t)number;
}

const char *choice_text(uint32_t value, char *text) {
    if (value == 0) return "default";
    if (value == XFER_NONE) return "none";
    snprintf(text, 16, "%u", value);
    return text;
}

size_t one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (words[i] != NULL && strcmp(words[i], word) == 0) return i;
    }
    errx(2, "%s: unknown; see --help", word);
}
