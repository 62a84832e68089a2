/* messages.c: operations of the coordinator that send a message to all processes. */
#include <stdio.h>
#include <string.h>

#include "measure.h"

enum { USUAL = 400, READS = 16, BEAT_MS = 2000, APART_MS = 10 };

static enum pp_err backlog(struct measure *m, struct call *c)
{
    return m->coordinators[c->lane]->ops->backlog(m->coordinators[c->lane], &c->r.backlog);
}

static uint64_t index_rows(const struct call *c)
{
    return c->r.backlog.n;
}

static enum pp_err announce(struct measure *m, struct call *c)
{
    m->coordinators[0]->ops->announce(m->coordinators[0], c->rows, c->asked);
    return PP_OK;
}

static enum pp_err notify(struct measure *m, struct call *c)
{
    m->coordinators[0]->ops->notify(m->coordinators[0], c->notices, c->asked);
    return PP_OK;
}

/* Ends the running call of a section of messages, if it is about this client. */
static void on_heard(struct measure *m, const char *client)
{
    if (!m->section || m->ended == m->section->n)
        return;
    struct call *c = &m->section->calls[m->ended];
    if ((c->rows && strcmp(c->rows[c->asked - 1].client, client) == 0) ||
        (c->notices && strcmp(c->notices[c->asked - 1].a, client) == 0))
        measure_end(c);
}

static void on_rows(void *data, const struct pp_backlog_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        on_heard(data, rows[i].client);
}

static void on_notice(void *data, const struct pp_notice *notice)
{
    on_heard(data, notice->a);
}

static void ignore_rows(void *data, const struct pp_backlog_row *rows, size_t n)
{
    (void)data;
    (void)rows;
    (void)n;
}

static void ignore_notice(void *data, const struct pp_notice *notice)
{
    (void)data;
    (void)notice;
}

/* Sends messages, each about `rows` new clients. */
static void send_all(struct measure *m, bool notices, size_t rows)
{
    struct section s =
        measure_section(m, "coordinator", notices ? "notify" : "announce", measure_count(m, USUAL));

    s.submit = notices ? notify : announce;
    s.in_flight = 1;
    s.listeners = m->n_coordinators - notices;
    for (size_t i = 0; i < s.n; i++) {
        struct call *c = &s.calls[i];
        struct pp_backlog_row *r = pp_arena_array(&c->arena, rows, sizeof *r);
        struct pp_notice *t = pp_arena_array(&c->arena, rows, sizeof *t);
        c->asked = rows;
        c->rows = notices ? NULL : r;
        c->notices = notices ? t : NULL;
        for (size_t k = 0; k < rows; k++) {
            t[k].kind = PP_NOTICE_CLIENT;
            r[k].client = t[k].a = measure_name(m, &c->arena, "c");
            r[k].due_ms = pp_loop_wall(m->loop);
        }
    }
    measure_timed(m, &s);
    m->section = NULL;
    measure_free(&s);
}

/* Reads the index, with what send_all() has announced. */
static void read_index(struct measure *m)
{
    struct section s = measure_section(m, "coordinator", "backlog", measure_count(m, READS));

    s.submit = backlog;
    s.got = index_rows;
    measure_timed(m, &s);
    measure_free(&s);
}

static void beat(struct measure *m, unsigned i)
{
    char id[NAME_BYTES];

    snprintf(id, sizeof id, "host-%u-aaaa", i);
    const struct pp_worker_info info = {.id = id,
                                        .host = "host",
                                        .pid = 1,
                                        .tiers = "all",
                                        .capacity = 768,
                                        .seen_at = pp_loop_wall(m->loop)};
    m->coordinators[i]->ops->heartbeat(m->coordinators[i], &info);
}

static bool have_beaten(struct measure *m)
{
    for (unsigned i = 0; i < m->n_coordinators; i++)
        if (m->coordinators[i]->ops->ring_size(m->coordinators[i]) == 0)
            return false;
    return true;
}

static enum pp_err heartbeat(struct measure *m, struct call *c)
{
    beat(m, (unsigned)(c - m->section->calls));
    measure_wait(m, APART_MS); /* else Redis would send many messages to a process at once */
    measure_end(c);
    return PP_OK;
}

/* The second heartbeat of each process: the first changes the hash ring. */
static void beat_all(struct measure *m)
{
    for (unsigned i = 0; i < m->n_coordinators; i++)
        beat(m, i);
    while (!have_beaten(m))
        pp_loop_turn(m->loop, true);
    for (unsigned round = 0; round < m->rounds; round++) {
        struct section s = measure_section(m, "coordinator", "heartbeat", m->n_coordinators);
        measure_wait(m, BEAT_MS);
        s.submit = heartbeat;
        s.listeners = 1;
        measure_timed(m, &s);
        m->section = NULL;
        measure_free(&s);
    }
}

void measure_messages(struct measure *m)
{
    for (int part = 0; part < 2; part++) {
        m->coordinators[0]->ops->watch(m->coordinators[0], ignore_rows, m);
        m->coordinators[1]->ops->watch(m->coordinators[1], on_rows, m);
        for (unsigned i = 2; i < m->n_coordinators; i++)
            m->coordinators[i]->ops->watch(m->coordinators[i], ignore_rows, m);
        for (unsigned i = 1; i < m->n_coordinators; i++)
            m->coordinators[i]->ops->watch_notices(m->coordinators[i], 1u << PP_NOTICE_CLIENT,
                                                   i == 1 ? on_notice : ignore_notice, m);
        measure_wait(m, 1000); /* until all have subscribed */
        for (unsigned round = 0; round < m->rounds; round++) {
            send_all(m, false, 1);
            send_all(m, false, 8);
            send_all(m, true, 1);
            send_all(m, true, 8);
            if (part == 0)
                read_index(m);
        }
        while (part == 0 && m->n_coordinators < LANES + LISTENERS)
            measure_listen(m);
    }
    beat_all(m);
}
