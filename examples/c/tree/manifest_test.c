/* SPDX-License-Identifier: Apache-2.0
 *
 * Manifests come from peers. What is well-formed survives the way there and back; what is cut,
 * overlaps, wraps or leads out of the tree is refused.
 */
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

/* Encodes two files, of which the second is the one under test, and says whether they are accepted.
 */
static bool accepts(const char *path, uint64_t offset, uint64_t size) {
    char first[] = "a/first";
    char *second = malloc(strlen(path) + 1);
    EXPECT(second != NULL);
    strcpy(second, path);
    struct file files[] = {{.offset = 0, .size = 100, .mode = 0644, .path = first},
                           {.offset = offset, .size = size, .mode = 0644, .path = second}};
    struct manifest manifest = {.files = files, .count = 2, .data_size = 4096};
    uint64_t length = 0;
    uint8_t *bytes = manifest_encode(&manifest, &length);
    EXPECT(bytes != NULL);
    bool ok = decodes(bytes, length);
    free(bytes);
    free(second);
    return ok;
}

static void test_paths(void) {
    const char *good[] = {"b", "a/b", "...", "..b", ".b", "a/.b/c..", "a b\n\xff"};
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
    char path[] = "a/file";
    struct file file = {.offset = 0, .size = 5, .mode = 07777, .path = path};
    struct manifest manifest = {.files = &file, .count = 1, .data_size = 5};
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
    EXPECT(back.count == 1 && back.files[0].size == 5 && strcmp(back.files[0].path, path) == 0);
    EXPECT(back.files[0].mode == 0777); /* no set-uid comes over */
    manifest_free(&back);
    bytes[16 + 4] = 1; /* 4 GiB of nothing */
    EXPECT(!decodes(bytes, length));
    bytes[16 + 4] = 0;
    EXPECT(decodes(bytes, length));
    memset(bytes + 8, 0xff, 8); /* a count that is not there */
    EXPECT(!decodes(bytes, length));
    free(bytes);
}

int main(void) {
    test_paths();
    test_ranges();
    test_cut();
    printf("ok\n");
    return 0;
}
