/* Tests the runtime of the simulator: the order of steps, timers, mailboxes, lanes, threads with a
 * loop, clocks, faults of processes, and that equal seeds give equal runs. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "runtime/lane.h"
#include "runtime/loop.h"
#include "runtime/loop_thread.h"
#include "runtime/mailbox.h"
#include "runtime/sim/sim.h"

enum { LOG_MAX = 4000 };

/* What has happened: letters in order, with their times in ms. */
struct story {
    struct pp_sim_world *world;
    char text[LOG_MAX];
    int64_t at_ms[LOG_MAX];
    size_t n;
};

static void tell(struct story *s, char what)
{
    assert_true(s->n + 1 < LOG_MAX);
    s->at_ms[s->n] = pp_sim_now_ms(s->world);
    s->text[s->n++] = what;
    s->text[s->n] = '\0';
}

static void story_begins(struct story *s)
{
    *s = (struct story){.world = pp_sim_world_open(&(struct pp_sim_options){.seed = 1})};
    assert_non_null(s->world);
}

struct actor {
    struct story *story;
    struct pp_timer *timer;
    char name;
    bool closes;
};

static void on_timer(void *data)
{
    struct actor *a = data;
    tell(a->story, a->name);
    if (a->closes)
        pp_timer_close(a->timer);
}

static void open_timer(struct actor *a, struct story *s, struct pp_loop *loop, char name)
{
    *a = (struct actor){.story = s, .name = name, .timer = pp_timer_open(loop, on_timer, a)};
    assert_non_null(a->timer);
}

static struct pp_loop *loop_of(struct pp_sim_process *p)
{
    struct pp_sim_place before = pp_sim_enter(p);
    struct pp_loop *loop = pp_loop_open();
    pp_sim_leave(before);
    assert_non_null(loop);
    return loop;
}

/* --- timers --- */

static void timers_run_in_the_order_of_their_times(void **state)
{
    (void)state;
    struct story s;
    struct actor a, b, c, d;
    story_begins(&s);
    struct pp_loop *loop = loop_of(pp_sim_process_open(s.world, "p"));
    open_timer(&a, &s, loop, 'a');
    open_timer(&b, &s, loop, 'b');
    open_timer(&c, &s, loop, 'c');
    open_timer(&d, &s, loop, 'd');
    pp_timer_start(a.timer, 30, 0);
    pp_timer_start(b.timer, 10, 0);
    pp_timer_start(c.timer, 10, 25);
    pp_timer_start(d.timer, INT64_MAX, 0);
    int64_t now = pp_loop_now(loop);
    pp_sim_run_until(s.world, 9);
    assert_string_equal(s.text, "");
    assert_int_equal(pp_loop_now(loop), now + 9);
    pp_sim_run_until(s.world, 60);
    assert_string_equal(s.text, "bcacc");
    assert_int_equal(s.at_ms[2], 30);
    assert_int_equal(s.at_ms[3], 35);
    assert_int_equal(s.at_ms[4], 60);
    pp_timer_sooner(c.timer, 100); /* changes nothing */
    pp_timer_sooner(c.timer, 5);   /* keeps the repetition */
    pp_timer_sooner(a.timer, 7);
    pp_sim_run_until(s.world, 90);
    assert_string_equal(s.text, "bcacccac");
    pp_timer_stop(c.timer);
    d.closes = true;
    pp_timer_start(d.timer, 0, 1);
    pp_sim_run_until(s.world, 10000);
    assert_string_equal(s.text, "bcacccacd");
    pp_timer_close(a.timer);
    pp_timer_close(b.timer);
    pp_timer_close(c.timer);
    pp_timer_close(NULL);
    pp_loop_close(loop);
    assert_false(pp_sim_step(s.world));
    pp_sim_world_close(s.world);
}

static void stop(void *loop)
{
    pp_loop_stop(loop);
}

static void a_program_can_turn_a_loop(void **state)
{
    (void)state;
    struct story s;
    struct actor a;
    story_begins(&s);
    struct pp_loop *loop = loop_of(pp_sim_process_open(s.world, "p"));
    open_timer(&a, &s, loop, 'a');
    assert_false(pp_loop_turn(loop, false));
    pp_timer_start(a.timer, 0, 0);
    assert_false(pp_loop_turn(loop, false));
    assert_string_equal(s.text, "a");
    pp_timer_start(a.timer, 250, 0);
    assert_true(pp_loop_turn(loop, true)); /* waits at most 100 ms */
    assert_int_equal(pp_sim_now_ms(s.world), 100);
    struct pp_timer *t = pp_timer_open(loop, stop, loop);
    assert_non_null(t);
    pp_timer_start(t, 100, 0);
    pp_loop_run(loop);
    assert_int_equal(pp_sim_now_ms(s.world), 200);
    /* a loop that was stopped gets no callback until it is turned */
    pp_timer_start(t, 10, 0);
    pp_sim_run_until(s.world, 1000);
    assert_true(pp_sim_loop_stopped(loop));
    assert_string_equal(s.text, "a");
    pp_loop_turn(loop, false);
    assert_string_equal(s.text, "aa");
    assert_int_equal(s.at_ms[1], 1000);
    pp_loop_run(loop); /* returns at once, because the loop was stopped before */
    assert_int_equal(pp_sim_now_ms(s.world), 1000);
    pp_timer_close(t);
    pp_timer_close(a.timer);
    pp_loop_close(loop);
    pp_sim_world_close(s.world);
}

/* --- mailboxes and signals --- */

struct letter {
    struct pp_mail mail;
    char name;
};

static void on_mail(void *data, struct pp_list *mail)
{
    struct story *s = data;
    struct pp_node *node;
    tell(s, '[');
    while ((node = pp_list_pop(mail)))
        tell(s, pp_container_of(node, struct letter, mail.node)->name);
    tell(s, ']');
}

static void mail_comes_in_a_later_step(void **state)
{
    (void)state;
    struct story s;
    struct letter letters[] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}};
    story_begins(&s);
    struct pp_loop *loop = loop_of(pp_sim_process_open(s.world, "p"));
    struct pp_mailbox *box = pp_mailbox_open(loop, on_mail, &s);
    assert_non_null(box);
    struct pp_list list;
    pp_list_init(&list);
    pp_mailbox_post_all(box, &list);
    pp_mailbox_post(box, &letters[0].mail);
    pp_list_push(&list, &letters[1].mail.node);
    pp_list_push(&list, &letters[2].mail.node);
    pp_mailbox_post_all(box, &list);
    assert_true(pp_list_empty(&list));
    assert_string_equal(s.text, "");
    pp_sim_run_until(s.world, 0);
    assert_string_equal(s.text, "[abc]");
    pp_mailbox_post(box, &letters[3].mail);
    pp_mailbox_close(box); /* delivers first */
    assert_string_equal(s.text, "[abc][d]");
    pp_mailbox_close(NULL);
    pp_loop_close(loop);
    pp_sim_world_close(s.world);
}

static void on_signal(void *data, int signo)
{
    tell(data, signo == SIGTERM ? 't' : 'h');
}

static void signals_come_on_the_loop(void **state)
{
    (void)state;
    struct story s;
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p);
    struct pp_signals *signals = pp_signals_open(loop, (const int[]){SIGTERM, SIGHUP}, 2, on_signal, &s);
    assert_non_null(signals);
    assert_null(pp_signals_open(loop, (const int[]){9999}, 1, on_signal, &s));
    pp_sim_process_signal(p, SIGTERM);
    pp_sim_process_signal(p, SIGTERM);
    pp_sim_process_signal(p, SIGHUP);
    pp_sim_process_signal(p, SIGUSR1);
    assert_string_equal(s.text, "");
    pp_sim_run_until(s.world, 1);
    assert_string_equal(s.text, "ht");
    pp_signals_close(signals);
    pp_signals_close(NULL);
    pp_loop_close(loop);
    pp_sim_world_close(s.world);
}

/* --- lanes --- */

struct job {
    struct pp_job job;
    struct story *story;
    char name;
};

static void job_done(struct pp_job *job)
{
    struct job *j = pp_container_of(job, struct job, job);
    tell(j->story, j->name);
}

static void do_batch(void *state, struct pp_job **jobs, size_t n)
{
    (void)jobs;
    tell(state, (char)('0' + n));
}

static void on_idle(void *state)
{
    tell(state, '.');
}

static int64_t lane_time(void *data, struct pp_sim_process *process, const char *lane, size_t jobs)
{
    (void)data;
    assert_string_equal(pp_sim_process_name(process), "p");
    assert_string_equal(lane, "db");
    return (int64_t)jobs * 1000;
}

static void submit(struct pp_lane_home *home, struct job *j, struct story *s, const char *names)
{
    for (size_t i = 0; names[i]; i++) {
        j[i] = (struct job){.job.done = job_done, .story = s, .name = names[i]};
        assert_int_equal(pp_lane_submit(home, &j[i].job), PP_OK);
    }
}

static void jobs_run_in_batches_after_a_delay(void **state)
{
    (void)state;
    struct story s = {.world = pp_sim_world_open(&(struct pp_sim_options){.lane_us = lane_time, .data = &s})};
    struct job j[10], full = {.job.done = job_done, .story = &s};
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p);
    struct pp_sim_place before = pp_sim_enter(p);
    struct pp_lane *lane = pp_lane_open(
        &(struct pp_lane_options){"db", 1, 8, 5, do_batch, .data = &s, .idle = on_idle, .idle_ms = 50});
    pp_sim_leave(before);
    struct pp_lane_home *home = pp_lane_home_open(lane, loop);
    assert_non_null(home);
    submit(home, j, &s, "abcdefgh");
    assert_int_equal(pp_lane_submit(home, &full.job), PP_EFULL);
    assert_int_equal(pp_lane_in_flight(home), 8);
    pp_sim_run_until(s.world, 4);
    assert_string_equal(s.text, "");
    submit(home, j + 8, &s, "ij"); /* the first batch is no longer in the queue */
    pp_sim_run_until(s.world, 5);
    assert_string_equal(s.text, "5abcde");
    pp_sim_run_until(s.world, 59);
    assert_string_equal(s.text, "5abcde5fghij");
    assert_int_equal(s.at_ms[6], 10);
    pp_sim_run_until(s.world, 115);
    assert_string_equal(s.text, "5abcde5fghij..");
    assert_int_equal(s.at_ms[13], 110);
    assert_int_equal(pp_lane_in_flight(home), 0);
    submit(home, j, &s, "abcdef");
    pp_lane_close(lane); /* finishes the jobs; their callbacks fire in later steps */
    assert_string_equal(s.text + 14, "51");
    assert_int_equal(pp_lane_submit(home, &full.job), PP_ECLOSED);
    pp_sim_run_until(s.world, 115);
    assert_string_equal(s.text + 14, "51abcdef");
    pp_lane_home_close(home);
    pp_loop_close(loop);
    pp_sim_world_close(s.world);
}

struct counted {
    int opened, closed, fail_at;
};

static void *open_state(void *data)
{
    struct counted *c = data;
    return ++c->opened == c->fail_at ? NULL : c;
}

static void close_state(void *state)
{
    ((struct counted *)state)->closed++;
}

static enum pp_err answer(void *state, struct pp_req *req)
{
    (void)req;
    return ((struct counted *)state)->opened == 3 ? PP_EIO : PP_OK;
}

static void on_answer(struct pp_req *req)
{
    tell(req->data, req->err == PP_EIO ? '!' : '?');
}

static void threads_have_their_own_state(void **state)
{
    (void)state;
    struct story s;
    struct counted c = {.fail_at = 2}, ok = {0};
    struct pp_lane_options o = {"db", 3, 2, 1, .open = open_state, .close = close_state, .data = &c};
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p);
    struct pp_sim_place before = pp_sim_enter(p);
    assert_null(pp_lane_open(&o));
    assert_int_equal(c.opened, 3);
    assert_int_equal(c.closed, 2);
    o.data = &ok;
    struct pp_lane *lane = pp_lane_open(&o);
    assert_non_null(lane);
    pp_sim_leave(before);
    struct pp_lane_home *home = pp_lane_home_open(lane, loop);
    struct pp_req req = {.done = on_answer, .data = &s};
    assert_int_equal(pp_lane_request(home, &req, answer), PP_OK);
    assert_string_equal(s.text, "");
    pp_sim_run_until(s.world, 0);
    assert_string_equal(s.text, "!");
    pp_lane_home_close(home);
    pp_lane_close(lane);
    assert_int_equal(ok.closed, 3);
    pp_loop_close(loop);
    pp_sim_world_close(s.world);
}

/* --- threads with a loop --- */

struct threaded {
    struct story *story;
    struct pp_loop *loop;
    struct pp_mailbox *orders;
    struct actor tick;
    struct letter stop;
    struct pp_loop_thread *thread;
    bool fails;
};

static void on_order(void *data, struct pp_list *mail)
{
    struct threaded *t = data;
    while (pp_list_pop(mail))
        ;
    pp_loop_stop(t->loop);
}

static enum pp_err open_threaded(void *data, struct pp_loop *loop)
{
    struct threaded *t = data;
    t->loop = loop;
    t->orders = pp_mailbox_open(loop, on_order, t);
    open_timer(&t->tick, t->story, loop, 't');
    pp_timer_start(t->tick.timer, 10, 10);
    return t->fails ? PP_EIO : PP_OK;
}

static void close_threaded(void *data)
{
    struct threaded *t = data;
    pp_timer_close(t->tick.timer);
    pp_mailbox_close(t->orders);
    tell(t->story, 'e');
}

static void end_thread(void *data)
{
    struct threaded *t = data;
    pp_mailbox_post(t->orders, &t->stop.mail);
    pp_loop_thread_close(t->thread);
    tell(t->story, 'j');
}

static void a_thread_is_a_loop_of_its_process(void **state)
{
    (void)state;
    struct story s;
    struct threaded t = {.story = &s, .fails = true};
    const struct pp_loop_thread_options o = {
        .name = "t", .data = &t, .open = open_threaded, .close = close_threaded};
    struct actor m;
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p);
    struct pp_sim_place before = pp_sim_enter(p);
    assert_int_equal(pp_loop_thread_open(&o, &t.thread), PP_EIO);
    assert_null(t.thread);
    t.fails = false;
    assert_int_equal(pp_loop_thread_open(&o, &t.thread), PP_OK);
    pp_sim_leave(before);
    assert_string_equal(s.text, "e");
    open_timer(&m, &s, loop, 'm');
    pp_timer_start(m.timer, 35, 0);
    struct pp_timer *end = pp_timer_open(loop, end_thread, &t);
    pp_timer_start(end, 35, 0);
    pp_sim_run_until(s.world, 1000);
    /* The thread ends while a callback of the main loop waits for that. */
    assert_string_equal(s.text, "etttmej");
    pp_timer_close(end);
    pp_timer_close(m.timer);
    pp_loop_close(loop);
    pp_loop_thread_close(NULL);
    pp_sim_world_close(s.world);
}

/* While the program waits for a thread, the thread and other processes get callbacks, but the main
 * loop does not. */
static void only_the_main_loop_waits_for_a_thread(void **state)
{
    (void)state;
    struct story s;
    struct threaded t = {.story = &s};
    const struct pp_loop_thread_options o = {
        .name = "t", .data = &t, .open = open_threaded, .close = close_threaded};
    struct actor m, other;
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p), *loop_2 = loop_of(pp_sim_process_open(s.world, "q"));
    struct pp_sim_place before = pp_sim_enter(p);
    assert_int_equal(pp_loop_thread_open(&o, &t.thread), PP_OK);
    pp_sim_leave(before);
    open_timer(&m, &s, loop, 'm');
    pp_timer_start(m.timer, 5, 0);
    open_timer(&other, &s, loop_2, 'o');
    pp_timer_start(other.timer, 15, 0);
    struct pp_timer *end = pp_timer_open(loop_2, stop, t.loop);
    pp_timer_start(end, 25, 0);
    pp_loop_thread_close(t.thread);
    assert_string_equal(s.text, "tote");
    assert_int_equal(pp_sim_now_ms(s.world), 25);
    pp_sim_run_until(s.world, 30);
    assert_string_equal(s.text, "totem");
    pp_timer_close(end);
    pp_timer_close(m.timer);
    pp_timer_close(other.timer);
    pp_loop_close(loop);
    pp_loop_close(loop_2);
    pp_sim_world_close(s.world);
}

/* --- faults --- */

static void a_frozen_process_is_late(void **state)
{
    (void)state;
    struct story s;
    struct actor a, b, c;
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p"), *q = pp_sim_process_open(s.world, "q");
    struct pp_loop *loop = loop_of(p), *other = loop_of(q);
    open_timer(&a, &s, loop, 'a');
    open_timer(&b, &s, loop, 'b');
    open_timer(&c, &s, other, 'c');
    pp_timer_start(b.timer, 40, 0);
    pp_timer_start(a.timer, 10, 10);
    pp_timer_start(c.timer, 20, 20);
    pp_sim_run_until(s.world, 10);
    assert_int_equal(pp_loop_lag(loop), 0);
    pp_sim_process_freeze(p);
    assert_true(pp_sim_process_frozen(p));
    pp_sim_run_until(s.world, 555);
    assert_string_equal(s.text, "accccccccccccccccccccccccccc");
    int64_t now = pp_loop_now(loop);
    pp_sim_process_thaw(p);
    pp_sim_run_until(s.world, 559);
    assert_string_equal(s.text + 28, "ab"); /* in the order of their times; missed periods are skipped */
    assert_int_equal(s.at_ms[28], 555);
    assert_int_equal(pp_loop_now(loop), now + 4); /* the clock has gone on */
    assert_int_equal(pp_loop_lag(loop), 55);
    assert_int_equal(pp_loop_lags(loop)->counts[6], 1);
    pp_sim_run_until(s.world, 566);
    assert_string_equal(s.text + 30, "ca");
    pp_timer_close(a.timer);
    pp_timer_close(b.timer);
    pp_timer_close(c.timer);
    pp_loop_close(loop);
    pp_loop_close(other);
    pp_sim_world_close(s.world);
}

static void crash_self(void *data)
{
    struct actor *a = data;
    tell(a->story, a->name);
    pp_sim_process_crash(pp_sim_here().process);
}

static void a_crashed_process_gets_no_callback(void **state)
{
    (void)state;
    struct story s;
    struct actor a, b, c = {.story = &s, .name = 'x'};
    struct letter letter = {.name = 'l'};
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p);
    struct pp_mailbox *box = pp_mailbox_open(loop, on_mail, &s);
    c.timer = pp_timer_open(loop, crash_self, &c);
    open_timer(&a, &s, loop, 'a');
    pp_timer_start(a.timer, 10, 10);
    pp_timer_start(c.timer, 35, 0);
    pp_sim_run_until(s.world, 100);
    assert_string_equal(s.text, "aaax");
    assert_true(pp_sim_process_crashed(p));
    pp_mailbox_post(box, &letter.mail);
    /* the next process on the same machine */
    struct pp_sim_process *again = pp_sim_process_again(p);
    assert_non_null(again);
    struct pp_loop *new_loop = loop_of(again);
    open_timer(&b, &s, new_loop, 'b');
    pp_timer_start(b.timer, 10, 0);
    pp_sim_run_until(s.world, 200);
    assert_string_equal(s.text, "aaaxb");
    assert_int_equal(pp_loop_now(loop), pp_loop_now(new_loop));
    pp_timer_close(a.timer);
    pp_timer_close(b.timer);
    pp_timer_close(c.timer);
    pp_loop_close(new_loop);
    pp_sim_world_close(s.world);
    free(loop);
    free(box);
}

static void a_slow_process_has_a_busy_loop(void **state)
{
    (void)state;
    struct story s;
    struct actor a, b, c;
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p), *other = loop_of(p);
    open_timer(&a, &s, loop, 'a');
    open_timer(&b, &s, loop, 'b');
    open_timer(&c, &s, other, 'c');
    pp_sim_process_slow(p, 7000);
    pp_timer_start(a.timer, 10, 0);
    pp_timer_start(b.timer, 10, 0);
    pp_timer_start(c.timer, 12, 0);
    pp_sim_run_until(s.world, 50);
    assert_string_equal(s.text, "acb");
    assert_int_equal(s.at_ms[2], 17);
    pp_timer_close(a.timer);
    pp_timer_close(b.timer);
    pp_timer_close(c.timer);
    pp_loop_close(loop);
    pp_loop_close(other);
    pp_sim_world_close(s.world);
}

/* --- clocks --- */

static void each_machine_has_its_own_clocks(void **state)
{
    (void)state;
    struct story s;
    struct actor a;
    char boot[3][PP_BOOT_ID_MAX];
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p"), *q = pp_sim_process_open(s.world, "q");
    pp_sim_process_set_boot(q, 5000);
    struct pp_loop *loop = loop_of(p);
    int64_t date = pp_loop_date(loop), wall = pp_loop_wall(loop), now = pp_loop_now(loop);
    char text[PP_TIME_MAX];
    assert_string_equal(pp_time_text(text, date), "2026-11-20T10:00:00.000Z");
    assert_int_equal(wall, date);
    assert_int_equal(date, pp_sim_date_ms(s.world));
    pp_sim_process_step_date(p, 3600000);
    assert_int_equal(pp_loop_date(loop), date + 3600000);
    assert_int_equal(pp_loop_wall(loop), wall);
    assert_int_equal(pp_loop_now(loop), now);
    /* a clock that is 1 % fast: a timer of 1,010 ms fires after 1,000 ms of true time */
    pp_sim_process_set_drift(p, 10000);
    open_timer(&a, &s, loop, 'a');
    pp_timer_start(a.timer, 1010, 0);
    pp_sim_run_until(s.world, 999);
    assert_string_equal(s.text, "");
    pp_sim_run_until(s.world, 1000);
    assert_string_equal(s.text, "a");
    assert_int_equal(pp_loop_now(loop), now + 1010);
    /* timers that are started follow a change of the speed */
    pp_timer_start(a.timer, 500, 0);
    pp_sim_process_set_drift(p, -500000);
    pp_sim_run_until(s.world, 1999);
    assert_string_equal(s.text, "a");
    pp_sim_run_until(s.world, 2000);
    assert_string_equal(s.text, "aa");
    struct pp_sim_place before = pp_sim_enter(p);
    pp_clock_boot_id(boot[0]);
    assert_int_equal(pp_clock_boot_ms(), pp_loop_now(loop));
    pp_clock_set_anchor(77);
    assert_int_equal(pp_loop_wall(loop), pp_loop_now(loop) + 77);
    pp_sim_enter(q);
    pp_clock_boot_id(boot[1]);
    assert_int_equal(pp_clock_boot_ms(), 7000);
    assert_int_equal(pp_clock_date_ms(), date + 2000);
    pp_sim_enter(pp_sim_process_again(p));
    pp_clock_boot_id(boot[2]);
    assert_int_equal(pp_clock_anchor_ms(), pp_loop_date(loop) - pp_loop_now(loop));
    pp_sim_enter_world(s.world);
    int64_t b, d;
    pp_clock_read(&b, &d);
    assert_int_equal(b, 2000);
    assert_int_equal(d, date + 2000);
    pp_sim_leave(before);
    assert_string_not_equal(boot[0], boot[1]);
    assert_string_equal(boot[0], boot[2]);
    pp_timer_close(a.timer);
    pp_loop_close(loop);
    pp_sim_world_close(s.world);
}

/* Timers on clocks with any speed fire when their clock has reached their time, and not 1 us
 * later. */
static void timers_are_exact_on_every_clock(void **state)
{
    (void)state;
    struct story s;
    struct actor a;
    story_begins(&s);
    struct pp_sim_process *p = pp_sim_process_open(s.world, "p");
    struct pp_loop *loop = loop_of(p);
    open_timer(&a, &s, loop, 'a');
    for (int i = 0; i < 2000; i++) {
        pp_sim_process_set_drift(p, (int64_t)pp_rng_below(pp_sim_rng(s.world), 1800000) - 900000);
        int64_t wait = (int64_t)pp_rng_below(pp_sim_rng(s.world), 99) + 1, due = pp_loop_now(loop) + wait;
        pp_timer_start(a.timer, wait, 0);
        size_t n = s.n;
        while (s.n == n) {
            assert_true(pp_loop_now(loop) <= due);
            assert_true(pp_sim_step(s.world));
        }
        assert_int_equal(pp_loop_now(loop), due);
        s.n = 0;
    }
    pp_timer_close(a.timer);
    pp_loop_close(loop);
    pp_sim_world_close(s.world);
}

/* --- events of the world --- */

struct world_event {
    struct pp_sim_event event;
    struct story *story;
};

static void on_event(void *data)
{
    struct world_event *e = data;
    assert_null(pp_sim_here().process);
    tell(e->story, 'e');
    pp_sim_event_in(&e->event, 1500);
}

static void the_world_has_events_of_its_own(void **state)
{
    (void)state;
    struct story s;
    struct world_event e = {.story = &s};
    story_begins(&s);
    pp_sim_event_init(&e.event, s.world, "network", on_event, &e);
    pp_sim_event_in(&e.event, 10);
    pp_sim_event_in(&e.event, 1500);
    assert_true(pp_sim_event_pending(&e.event));
    pp_sim_run_until(s.world, 4);
    assert_string_equal(s.text, "ee");
    assert_int_equal(pp_sim_steps(s.world), 2);
    pp_sim_event_cancel(&e.event);
    assert_false(pp_sim_event_pending(&e.event));
    assert_false(pp_sim_step(s.world));
    pp_sim_world_close(s.world);
}

/* --- equal seeds, equal runs --- */

enum { CHATTERS = 5, PER_CHATTER = 8 };

struct chatter {
    struct pp_sim_world *world;
    struct pp_loop *loop;
    struct pp_mailbox *box;
    struct pp_timer *timers[PER_CHATTER];
    struct letter letter;
    bool sent;
    struct chatter *next;
    uint64_t traced;
};

static void on_chat(void *data, struct pp_list *mail)
{
    struct chatter *c = data;
    while (pp_list_pop(mail))
        ;
    unsigned char byte;
    pp_random_bytes(&byte, 1);
    c->sent = false;
    pp_timer_start(c->timers[byte % PER_CHATTER], byte, 100);
}

static void on_chat_timer(void *data)
{
    struct chatter *c = data;
    if (c->next->sent)
        return;
    c->next->sent = true;
    pp_mailbox_post(c->next->box, &c->next->letter.mail);
}

static int64_t mail_time(void *data, struct pp_sim_process *reader)
{
    (void)reader;
    struct chatter *c = data;
    return (int64_t)pp_rng_below(pp_sim_rng(c->world), 3000);
}

static void count_trace(void *data, int64_t at_us, const struct pp_sim_process *p, const char *what,
                        uint64_t number)
{
    (void)at_us, (void)number;
    assert_true(p && (strcmp(what, "timer") == 0 || strcmp(what, "mail") == 0 || strcmp(what, "lag") == 0));
    ((struct chatter *)data)->traced++;
}

static uint64_t run_chatters(uint64_t seed, int64_t ms, uint64_t *steps)
{
    struct chatter c[CHATTERS] = {0};
    struct pp_sim_world *world = pp_sim_world_open(
        &(struct pp_sim_options){.seed = seed, .data = c, .mail_us = mail_time, .trace = count_trace});
    c[0].world = world;
    for (int i = 0; i < CHATTERS; i++) {
        c[i].loop = loop_of(pp_sim_process_open(world, "chatter"));
        c[i].next = &c[(i + 1) % CHATTERS];
        c[i].box = pp_mailbox_open(c[i].loop, on_chat, &c[i]);
        for (int k = 0; k < PER_CHATTER; k++) {
            c[i].timers[k] = pp_timer_open(c[i].loop, on_chat_timer, &c[i]);
            pp_timer_start(c[i].timers[k], 10 * k, 50);
        }
    }
    pp_sim_run_until(world, ms);
    uint64_t hash = pp_sim_hash(world);
    assert_int_equal(c[0].traced, pp_sim_steps(world));
    if (steps)
        *steps = pp_sim_steps(world);
    for (int i = 0; i < CHATTERS; i++) {
        for (int k = 0; k < PER_CHATTER; k++)
            pp_timer_close(c[i].timers[k]);
        pp_mailbox_close(c[i].box);
        pp_loop_close(c[i].loop);
    }
    pp_sim_world_close(world);
    return hash;
}

static void equal_seeds_give_equal_runs(void **state)
{
    (void)state;
    uint64_t steps = 0, again = 0;
    uint64_t a = run_chatters(7, 20000, &steps), b = run_chatters(7, 20000, &again);
    assert_true(steps > 1000);
    assert_int_equal(steps, again);
    assert_true(a == b);
    assert_true(a != run_chatters(8, 20000, NULL));
    struct pp_sim_world *world = pp_sim_world_open(&(struct pp_sim_options){0});
    a = pp_sim_hash(world);
    pp_sim_hash_add(world, 1);
    assert_true(a != pp_sim_hash(world));
    pp_sim_world_close(world);
    assert_true(pp_hash("a", 1) != pp_hash("b", 1));
}

static void random_bytes_come_from_the_seed(void **state)
{
    (void)state;
    uint8_t got[4][40];
    for (int i = 0; i < 4; i++) {
        struct pp_sim_world *world = pp_sim_world_open(&(struct pp_sim_options){.seed = i < 3 ? 5 : 6});
        struct pp_sim_process *p = pp_sim_process_open(world, "p"), *q = pp_sim_process_open(world, "q");
        struct pp_sim_place before = pp_sim_enter(i == 2 ? q : p);
        pp_random_bytes(got[i], 33);
        pp_random_bytes(got[i] + 33, 7);
        pp_sim_leave(before);
        pp_sim_world_close(world);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    assert_memory_not_equal(got[0], got[2], sizeof got[0]);
    assert_memory_not_equal(got[0], got[3], sizeof got[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_run_in_the_order_of_their_times),
        cmocka_unit_test(a_program_can_turn_a_loop),
        cmocka_unit_test(mail_comes_in_a_later_step),
        cmocka_unit_test(signals_come_on_the_loop),
        cmocka_unit_test(jobs_run_in_batches_after_a_delay),
        cmocka_unit_test(threads_have_their_own_state),
        cmocka_unit_test(a_thread_is_a_loop_of_its_process),
        cmocka_unit_test(only_the_main_loop_waits_for_a_thread),
        cmocka_unit_test(a_frozen_process_is_late),
        cmocka_unit_test(a_crashed_process_gets_no_callback),
        cmocka_unit_test(a_slow_process_has_a_busy_loop),
        cmocka_unit_test(each_machine_has_its_own_clocks),
        cmocka_unit_test(timers_are_exact_on_every_clock),
        cmocka_unit_test(the_world_has_events_of_its_own),
        cmocka_unit_test(equal_seeds_give_equal_runs),
        cmocka_unit_test(random_bytes_come_from_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
