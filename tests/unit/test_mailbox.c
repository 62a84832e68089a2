/* Tests mailboxes: the order of one sender's letters, batches, closing with unread letters, many
 * senders. This test also runs under ThreadSanitizer. */
#include <pthread.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/mailbox.h"
#include "test_loop.h"

enum { SENDERS = 4, EACH = 5000 };

struct letter {
    struct pp_mail mail;
    int sender, number;
};

struct reader {
    struct pp_mailbox *box;
    int next[SENDERS];
    int got, calls, wanted;
    bool close_when_done, out_of_order;
};

static void on_mail(void *data, struct pp_list *mail)
{
    struct reader *r = data;
    struct pp_node *node;
    r->calls++;
    while ((node = pp_list_pop(mail))) {
        struct letter *l = pp_container_of(node, struct letter, mail.node);
        r->out_of_order |= l->number != r->next[l->sender]++;
        r->got++;
    }
    if (r->close_when_done && r->got == r->wanted)
        pp_mailbox_close(r->box);
}

static bool got_all(void *arg)
{
    struct reader *r = arg;
    return r->got == r->wanted;
}

static void one_wake_up_for_many(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct reader r = {.wanted = 100};
    r.box = pp_mailbox_open(loop, on_mail, &r);
    assert_non_null(r.box);
    struct letter letters[100];
    struct pp_list some;
    pp_list_init(&some);
    pp_mailbox_post_all(r.box, &some); /* an empty list does not wake the loop */
    pp_loop_turn(loop, false);
    assert_int_equal(r.calls, 0);
    for (int i = 0; i < 100; i++) {
        letters[i] = (struct letter){.number = i};
        if (i < 50)
            pp_mailbox_post(r.box, &letters[i].mail);
        else
            pp_list_push(&some, &letters[i].mail.node);
    }
    pp_mailbox_post_all(r.box, &some);
    assert_true(pp_list_empty(&some));
    pp_test_until(loop, got_all, &r, 5000);
    assert_int_equal(r.calls, 1);
    assert_false(r.out_of_order);
    pp_mailbox_close(r.box);
    pp_mailbox_close(NULL);
    pp_loop_close(loop);
}

static void close_delivers_first(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    assert_non_null(loop);
    struct reader r = {.wanted = 2};
    r.box = pp_mailbox_open(loop, on_mail, &r);
    assert_non_null(r.box);
    struct letter letters[2] = {{.number = 0}, {.number = 1}};
    pp_mailbox_post(r.box, &letters[0].mail);
    pp_mailbox_post(r.box, &letters[1].mail);
    pp_mailbox_close(r.box);
    assert_int_equal(r.got, 2);
    pp_loop_close(loop);
    assert_int_equal(r.calls, 1);
}

struct sender {
    struct pp_mailbox *box;
    int sender;
    struct letter letters[EACH];
};

static void *send_all(void *arg)
{
    struct sender *s = arg;
    struct pp_list some;
    pp_list_init(&some);
    for (int i = 0; i < EACH; i++) {
        s->letters[i] = (struct letter){.sender = s->sender, .number = i};
        if (i % 100 < 50) {
            pp_mailbox_post(s->box, &s->letters[i].mail);
            continue;
        }
        pp_list_push(&some, &s->letters[i].mail.node);
        if (i % 10 == 9)
            pp_mailbox_post_all(s->box, &some);
    }
    return NULL;
}

/* Several threads post letters. Each thread's letters must arrive once and in order. The reader
 * closes the mailbox as soon as it has the last letter. */
static void many_senders_lose_nothing(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct pp_loop *loop = pp_loop_open();
        assert_non_null(loop);
        struct reader r = {.wanted = SENDERS * EACH, .close_when_done = true};
        r.box = pp_mailbox_open(loop, on_mail, &r);
        assert_non_null(r.box);
        struct sender *s = calloc(SENDERS, sizeof(*s));
        assert_non_null(s);
        pthread_t threads[SENDERS];
        for (int i = 0; i < SENDERS; i++) {
            s[i].box = r.box;
            s[i].sender = i;
            assert_int_equal(pthread_create(&threads[i], NULL, send_all, &s[i]), 0);
        }
        pp_test_until(loop, got_all, &r, 60000);
        pp_loop_close(loop);
        for (int i = 0; i < SENDERS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(r.got, r.wanted);
        assert_false(r.out_of_order);
        free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_wake_up_for_many),
        cmocka_unit_test(close_delivers_first),
        cmocka_unit_test(many_senders_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
