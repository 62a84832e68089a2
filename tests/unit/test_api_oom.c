/* Lets memory run out where the API makes its tables of callers and of Idempotency-Keys: requests
 * are answered, at worst with an error, and the API goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/evp.h>

#include "api_run.h"

#include "nth_alloc.h"

#include "api/callers.c"
#include "pipeline/accept/accept.c"

static const char body[] = "{\"client\":\"42\",\"items\":[{\"id\":\"a\",\"photos\":[]}]}";

/* A post that can't reserve its key is answered by an error, and the key is free afterwards. */
static void a_key_is_not_reserved(void **state)
{
    struct api_run *t = *state;
    int failed = 0, status = 0;

    for (int fail_at = 0; fail_at < 20 && status != 202; fail_at++) {
        t->key = "k";
        alloc_left = fail_at;
        alloc_fails_on = true;
        status = api_ask(t, PP_POST, "/v1/batches", body);
        alloc_left = -1;
        assert_true(status == 202 || status == 500 || status == 503);
        failed += status != 202;
    }
    assert_int_equal(status, 202);
    assert_true(failed > 0);
}

/* Without memory, new callers share one place. Later they get places of their own. */
static void callers_share_a_place(void **state)
{
    struct api_run *t = *state;
    static char peer[32];

    t->params.caller_rate = 1;
    t->peer = peer;
    for (int i = 0; i < 3 * PP_CALLERS_MAX; i++) {
        snprintf(peer, sizeof(peer), "10.1.%d.%d", i / 250, i % 250);
        alloc_left = 0;
        alloc_fails_on = true;
        int status = api_get(t, "/nope");
        alloc_left = -1;
        assert_int_equal(status, i == 0 ? 404 : 429);
    }
    for (int i = 0; i < 2 * PP_CALLERS_MAX; i++) {
        snprintf(peer, sizeof(peer), "10.2.%d.%d", i / 250, i % 250);
        assert_int_equal(api_get(t, "/nope"), 404);
        assert_int_equal(api_get(t, "/nope"), 429);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_is_not_reserved, api_open, api_close),
        cmocka_unit_test_setup_teardown(callers_share_a_place, api_open, api_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
