/* Tests the layout of a blob store: only names of that layout count as objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/object_name.h"
#include "base/text.h"

#define HEX "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static void the_layout_is_as_documented(void **state)
{
    uint8_t sha256[32];
    char path[PP_OBJECT_NAME_MAX];

    (void)state;
    assert_true(pp_unhex(sha256, 32, HEX, 64));
    pp_object_path(path, sha256, "jpg");
    assert_string_equal(path, "sha256/ba/78/" HEX ".jpg");
}

static void names_come_back(void **state)
{
    static const char *const exts[] = {"jpg", "7", "a", "jpegxls", "webp"};
    struct pp_rng rng;

    (void)state;
    pp_rng_seed(&rng, 5);
    /* From the second round on, `path` contains the bytes of an earlier name. */
    for (int i = 0; i < 1000; i++) {
        struct pp_blob_name name, same = {0};
        uint8_t sha256[32];
        char path[PP_OBJECT_NAME_MAX];
        const char *ext = exts[pp_rng_below(&rng, sizeof(exts) / sizeof(*exts))];
        for (int k = 0; k < 32; k++)
            sha256[k] = (uint8_t)pp_rng_next(&rng);
        pp_object_path(path, sha256, ext);
        assert_true(pp_object_parse(&name, path, strlen(path)));
        assert_memory_equal(name.sha256, sha256, 32);
        assert_string_equal(name.ext, ext);
        memcpy(same.sha256, sha256, 32);
        memcpy(same.ext, ext, strlen(ext));
        assert_memory_equal(&name, &same, sizeof(name));
    }
}

static void other_names_are_no_objects(void **state)
{
    static const char *const others[] = {
        "",
        "sha256",
        "sha256/ba/78/" HEX,
        "sha256/ba/78/" HEX ".",
        "sha256/ba/78/" HEX ".jpegxlsx",
        "sha256/ba/78/" HEX ".JPG",
        "sha256/ba/78/" HEX ".j/g",
        "sha256/ba/78/" HEX "xjpg",
        "sha256/ba/79/" HEX ".jpg",
        "sha256/bb/78/" HEX ".jpg",
        "sha512/ba/78/" HEX ".jpg",
        "sha256/ba/78/0" HEX ".jpg",
        "sha256/ba/78/BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.jpg",
        "sha256/ba/78/ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.jpg",
        "/sha256/ba/78/" HEX ".jpg",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct pp_blob_name name;
        if (pp_object_parse(&name, others[i], strlen(others[i])))
            fail_msg("accepted as an object: %s", others[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_as_documented),
        cmocka_unit_test(names_come_back),
        cmocka_unit_test(other_names_are_no_objects),
    };
    return cmocka_run_group_tests_name("object names", tests, NULL, NULL);
}
