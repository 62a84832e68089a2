/* suite_store_rekey.c: photos that a version stored under a key of their own for each spelling of
 * their URL, before and after a store has given them the keys of their canonical URLs. */
#include <string.h>

#include "core/url.h"
#include "suite_store_kit.h"

struct pp_key sk_key_of(const char *client, const char *url, size_t n)
{
    static const char before[] = "https://d/", after[] = ".jpg";
    char text[PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];
    struct pp_url u;

    assert_int_equal(pp_url_read(&u, NULL, url, n, text, why), 0);
    assert_memory_equal(u.text, before, strlen(before));
    text[u.n - strlen(after)] = '\0';
    return sk_key(client, text + strlen(before));
}

/* Claims the client's only task, and settles it with these bytes. */
static void store_bytes(struct store_kit *k, const char *photo)
{
    struct pp_settlement s = sk_settlement(sk_claim_photo(k, "c", photo), PP_OUTCOME_STORED);
    s.outcome.object = sk_object(pp_arena_printf(&k->arena, "%s, these bytes", photo));
    s.outcome.fetched_at = k->now;
    sk_settle(k, KIT_WORKER, &s, 1);
    assert_false(s.stale);
}

/* Names with escapes are other spellings of letters: %61 is a, %62 is b, and so on. */
void sk_before_rekey(struct store_kit *k)
{
    k->now += 1000;
    sk_plan(k, "c", "b_1", "first: %61 b e g h=failed");
    store_bytes(k, "%61");
    store_bytes(k, "b");
    store_bytes(k, "e");
    store_bytes(k, "g");
    k->now += 1000;
    sk_plan(k, "c", "b_2", "second: %62 %67");
    store_bytes(k, "%62");
    k->now += 1000;
    assert_false(sk_fail(k, sk_claim_photo(k, "c", "%67"), 404, true));
    k->now += 1000;
    sk_plan(k, "c", "b_3", "third: %66");
    sk_claim_photo(k, "c", "%66"); /* by a worker that is gone afterwards */
    sk_plan(k, "c", "b_4", "w: %63 d; x: %64 %65 %61; y: f %64; z: d %64");
}

static void has_bytes(struct store_kit *k, const char *photo, const char *from)
{
    const struct pp_photo *p = &sk_photo(k, "c", photo)->photo;
    struct pp_object o = sk_object(pp_arena_printf(&k->arena, "%s, these bytes", from));
    assert_true(p->found);
    assert_memory_equal(p->object.sha256, o.sha256, sizeof o.sha256);
}

void sk_after_rekey(struct store_kit *k)
{
    static const char *const spelled[] = {"%61", "%62", "%63", "%64", "%65", "%66", "%67"};
    has_bytes(k, "a", "%61");
    has_bytes(k, "b", "%62"); /* the newer ones */
    has_bytes(k, "e", "e");
    has_bytes(k, "g", "g");
    assert_int_equal(sk_photo(k, "c", "g")->photo.fail_code, 404);
    assert_int_equal(sk_photo(k, "c", "b")->photo.fail_code, 0);
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
        assert_false(sk_photo(k, "c", spelled[i])->photo.found);
        assert_false(sk_photo(k, "c", spelled[i])->open);
    }
    struct pp_store_claim *r = sk_claim(k, "c", 0, 100);
    assert_int_equal(r->n, 5); /* c d e f a */
    for (size_t i = 0; i < r->n; i++)
        assert_false(sk_final(k, KIT_WORKER, &r->tasks[i], PP_OUTCOME_STORED));
    for (const char *item = "wxyz"; *item; item++) {
        const char id[] = {*item, '\0'};
        assert_int_equal(sk_item(k, "c", id).status, PP_ITEM_COMPLETE);
    }
    assert_int_equal(sk_item(k, "c", "third").status, PP_ITEM_COMPLETE);
    assert_int_equal(sk_item(k, "c", "first").status, PP_ITEM_PARTIAL);
    for (const char *batch = "1234"; *batch; batch++) {
        char id[] = "b_?";
        id[2] = *batch;
        sk_check_counts(k, "c", id, "");
        assert_int_equal(sk_batch(k, id).state, PP_BATCH_FINISHED);
    }
    assert_int_equal(sk_claim(k, "c", 0, 100)->n, 0);
}
