/* Tests DELETE /v1/ladder over a fake store: which failures it forgets. */
#include <openssl/sha.h>

#include "api/api.h"
#include "api_run.h"
#include "photopool/scope.h"

static char path[256];

/* An operator lets the store forget failures: of all photos, of a client, of a host. */
static void failures_are_forgotten(void **state)
{
    static const char *const cases[][2] = {{"", "* *"},
                                           {"?client=42", "42 *"},
                                           {"?domain=a.example", "* a.example"},
                                           {"?client=42&domain=a.example", "42 a.example"}};
    struct api_run *t = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        snprintf(path, sizeof(path), "/v1/ladder%s", cases[i][0]);
        assert_int_equal(api_ask(t, PP_DELETE, path, NULL), 200);
        assert_string_equal(t->server.body, "{\"photos\":3}");
        assert_string_equal(t->store.forgotten, cases[i][1]);
    }
}

static void requests_are_refused(void **state)
{
    struct api_run *t = *state;

    assert_int_equal(api_ask(t, PP_DELETE, "/v1/ladder?client=a%3Ab", NULL), 400);
    assert_string_equal(api_code(t), "bad_client");
    assert_int_equal(api_ask(t, PP_DELETE, "/v1/ladder?host=a", NULL), 400);
    assert_int_equal(api_ask(t, PP_GET, "/v1/ladder", NULL), 405);
    assert_string_equal(t->store.forgotten, "");
    t->store.err = PP_EIO;
    assert_int_equal(api_ask(t, PP_DELETE, "/v1/ladder", NULL), 503);
}

/* A key that is bound to a client forgets only failures of this client. */
static void bound_keys_forget_their_own(void **state)
{
    struct api_run *t = *state;
    struct pp_api_key key = {.name = "k", .scopes = PP_SCOPE_ADMIN, .client = "42"};

    SHA256((const unsigned char *)"secret", 6, key.sha256);
    t->params.keys = &key;
    t->params.n_keys = 1;
    t->authorization = "Bearer secret";
    assert_int_equal(api_ask(t, PP_DELETE, "/v1/ladder", NULL), 200);
    assert_string_equal(t->store.forgotten, "42 *");
    assert_int_equal(api_ask(t, PP_DELETE, "/v1/ladder?client=43", NULL), 404);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(failures_are_forgotten),
        TEST(requests_are_refused),
        TEST(bound_keys_forget_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
