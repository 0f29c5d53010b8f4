/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests come from peers. What is well-formed survives the way there and back; what is cut,
 * overlaps, wraps or leads out of the tree is refused.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "../must.h"
#include "manifest.h"

static bool decodes(const uint8_t *bytes, uint64_t size) {
    struct manifest manifest = {0};
    struct why why;
    bool ok = manifest_decode(&manifest, bytes, size, &why);
    manifest_free(&manifest);
    return ok;
}

/* Encodes the entries and says whether they are accepted. */
static bool accepts_all(struct entry *entries, uint64_t count, uint64_t data_size) {
    struct manifest manifest = {.entries = entries, .count = count, .data_size = data_size};
    uint64_t length = 0;
    uint8_t *bytes = manifest_encode(&manifest, &length);
    EXPECT(bytes != NULL);
    bool ok = decodes(bytes, length);
    free(bytes);
    return ok;
}

static char *text(const char *from) {
    char *copy = strdup(from);
    EXPECT(copy != NULL);
    return copy;
}

/* Two files behind the directories "a" and "a/.b", of which the second is the one under test. */
static bool accepts(const char *path, uint64_t offset, uint64_t size) {
    char *second = text(path);
    char a[] = "a";
    char b[] = "a/.b";
    char first[] = "a/first";
    struct entry entries[] = {
        {.kind = ENTRY_DIRECTORY, .mode = 0755, .path = a},
        {.kind = ENTRY_DIRECTORY, .mode = 0755, .path = b},
        {.kind = ENTRY_FILE, .offset = 0, .size = 100, .mode = 0644, .path = first},
        {.kind = ENTRY_FILE, .offset = offset, .size = size, .mode = 0644, .path = second}};
    bool ok = accepts_all(entries, 4, 4096);
    free(second);
    return ok;
}

/* Entries of these kinds ('d', 'l', 'f') and paths, one behind the other. */
static bool accepts_order(const char *kinds, const char *const *paths) {
    char target[] = "/etc";
    struct entry entries[8] = {0};
    uint64_t count = strlen(kinds);
    for (uint64_t i = 0; i < count; i++) {
        entries[i].kind = kinds[i] == 'd'   ? ENTRY_DIRECTORY
                          : kinds[i] == 'l' ? ENTRY_LINK
                                            : ENTRY_FILE;
        entries[i].path = text(paths[i]);
        if (kinds[i] == 'l') entries[i].target = target;
    }
    bool ok = accepts_all(entries, count, 4096);
    for (uint64_t i = 0; i < count; i++)
        free(entries[i].path);
    return ok;
}

#define ORDER(kinds, ...) accepts_order(kinds, (const char *const[]){__VA_ARGS__})

/* Nothing can be written through a link, since all lies in directories that are listed. */
static void test_order(void) {
    EXPECT(ORDER("ddlf", "a", "a/b", "a/c", "a/b/d"));
    EXPECT(ORDER("dd", "a", "a-"));
    EXPECT(!ORDER("dd", "a/b", "a"));
    EXPECT(!ORDER("dd", "a", "a"));
    EXPECT(!ORDER("ll", "a", "a"));
    EXPECT(!ORDER("lf", "a", "a/passwd"));
    EXPECT(!ORDER("dlf", "a", "a/b", "a/b/passwd"));
    EXPECT(!ORDER("ff", "a", "a/b"));
    EXPECT(!ORDER("f", "a/b"));
    EXPECT(!ORDER("fd", "b", "a"));
    EXPECT(!ORDER("ld", "b", "a"));
}

static void test_paths(void) {
    const char *good[] = {"b", "a/b", "...", "..b", ".b", "a/.b/c..", "a b\n\xff", "a/first-"};
    const char *bad[] = {"",   "/",    "/b",     "b/",   "a//b", ".",
                         "..", "../b", "a/../b", "a/..", "./b",  "a/."};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        EXPECT(accepts(good[i], 100, 10));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT(!accepts(bad[i], 100, 10));
    char *long_path = calloc(1, 5001);
    EXPECT(long_path != NULL);
    memset(long_path, 'x', 5000);
    EXPECT(!accepts(long_path, 100, 10));
    free(long_path);
}

static void test_ranges(void) {
    EXPECT(accepts("b", 100, 3996));
    EXPECT(accepts("b", 4096, 0));
    EXPECT(!accepts("b", 100, 3997));
    EXPECT(!accepts("b", 99, 1)); /* inside the first file */
    EXPECT(!accepts("b", 4097, 0));
    EXPECT(!accepts("b", 200, UINT64_MAX - 100)); /* wraps */
    EXPECT(!accepts("b", UINT64_MAX, 2));
}

/* Every prefix of a good manifest, in memory that ends where it ends, so that a sanitizer sees a
 * read past it. */
static void test_cut(void) {
    char path[] = "file";
    char link_path[] = "link";
    char target[] = "../elsewhere";
    struct entry entries[] = {{.kind = ENTRY_LINK, .path = link_path, .target = target},
                              {.kind = ENTRY_FILE,
                               .size = 5,
                               .mode = 07777,
                               .seconds = -3,
                               .nanoseconds = 999999999,
                               .path = path}};
    struct manifest manifest = {.entries = entries, .count = 2, .data_size = 5, .disk_bytes = 512};
    uint64_t length = 0;
    uint8_t *bytes = manifest_encode(&manifest, &length);
    EXPECT(bytes != NULL);
    for (uint64_t cut = 0; cut < length; cut++) {
        uint8_t *part = malloc(cut ? cut : 1);
        EXPECT(part != NULL);
        memcpy(part, bytes, cut);
        EXPECT(!decodes(part, cut));
        free(part);
    }
    struct manifest back = {0};
    struct why why;
    EXPECT(manifest_decode(&back, bytes, length, &why));
    EXPECT(back.count == 2 && back.disk_bytes == 512 && manifest_file_count(&back) == 1);
    EXPECT(strcmp(back.entries[0].target, target) == 0 && back.entries[1].target == NULL);
    EXPECT(back.entries[1].size == 5 && strcmp(back.entries[1].path, path) == 0);
    EXPECT(back.entries[1].seconds == -3 && back.entries[1].nanoseconds == 999999999);
    EXPECT(back.entries[1].mode == 0777); /* no set-uid comes over */
    manifest_free(&back);
    bytes[16 + 4] = 1; /* 4 GiB of nothing */
    EXPECT(!decodes(bytes, length));
    bytes[16 + 4] = 0;
    EXPECT(decodes(bytes, length));
    bytes[32 + 24 + 3] = 0xff; /* more nanoseconds than a second has */
    EXPECT(!decodes(bytes, length));
    bytes[32 + 24 + 3] = 0;
    bytes[32 + 28] = 3; /* a kind that is none */
    EXPECT(!decodes(bytes, length));
    bytes[32 + 28] = ENTRY_FILE; /* a file that has a target */
    EXPECT(!decodes(bytes, length));
    bytes[32 + 28] = ENTRY_LINK;
    memset(bytes + 8, 0xff, 8); /* a count that is not there */
    EXPECT(!decodes(bytes, length));
    free(bytes);
}

int main(void) {
    test_paths();
    test_order();
    test_ranges();
    test_cut();
    printf("ok\n");
    return 0;
}
