/* coordinator_tell.c: what the operations of the coordinator's server share: its clock, its data
 * set, the messages to ports, announcements and whom they reach. */
#include <stdio.h>
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/stable_hash.h"

/* --- the data set --- */

int64_t pp_mc_now(const struct pp_memory_coordinator_server *s)
{
    return s->o.now_ms ? s->o.now_ms(s->o.data) : pp_clock_wall_ms();
}

void pp_mc_set_name(const struct pp_memory_coordinator_server *s, uint64_t set, char name[PP_MC_ID_MAX])
{
    name[0] = '\0';
    if (set > 0)
        snprintf(name, PP_MC_ID_MAX, "%016llx-%llu", (unsigned long long)s->o.seed, (unsigned long long)set);
}

bool pp_mc_is_young(const struct pp_memory_coordinator_server *s, int64_t lease_ms, int64_t now_ms)
{
    return !s->first && now_ms < s->began_ms + lease_ms;
}

/* --- messages --- */

static int by_process(const void *key, const void *element)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct pp_mc_client_port *)element)->process;
    return (a > b) - (a < b);
}

static struct pp_mc_client_port *port_of(const struct pp_memory_coordinator_server *s, uint32_t process)
{
    return pp_memory_sorted_find(&s->ports, &process, by_process);
}

bool pp_mc_attach(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port)
{
    if (!pp_memory_sorted_reserve(&s->ports, s->ports.n + 1))
        return false;
    for (int kind = 0; kind < PP_NOTICE_KINDS; kind++) /* so that pp_mc_set_kinds() has room */
        if (!pp_memory_sorted_reserve(&s->watching[kind], s->ports.n + 1))
            return false;
    port->process = ++s->processes;
    pp_memory_sorted_insert(&s->ports, s->ports.n, port);
    return true;
}

void pp_mc_set_kinds(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port, uint32_t kinds)
{
    for (int kind = 0; kind < PP_NOTICE_KINDS; kind++) {
        struct pp_memory_sorted *all = &s->watching[kind];
        size_t i = pp_memory_sorted_place(all, &port->process, by_process);
        if ((port->kinds & ~kinds) >> kind & 1)
            pp_memory_sorted_remove(all, i);
        else if ((kinds & ~port->kinds) >> kind & 1)
            pp_memory_sorted_insert(all, i, port);
    }
    port->kinds = kinds;
}

void pp_mc_detach(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port)
{
    pp_assert(port_of(s, port->process) == port, "a port is detached twice");
    pp_mc_set_kinds(s, port, 0);
    pp_memory_sorted_remove(&s->ports, pp_memory_sorted_place(&s->ports, &port->process, by_process));
}

void pp_mc_keep_cut(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port)
{
    pp_mc_detach(s, port);
    pp_list_push(&s->cut, &port->node);
}

struct pp_memory_content *pp_mc_news_new(enum pp_mc_kind kind, uint32_t process)
{
    struct pp_memory_content *content = pp_memory_content_new(sizeof(struct pp_mc_news));

    if (content)
        *(struct pp_mc_news *)content->body = (struct pp_mc_news){.kind = kind, .process = process};
    return content;
}

/* Returns true if the message is for the process of the port, too. */
static bool is_for(const struct pp_mc_client_port *port, const struct pp_mc_news *news)
{
    return !news || port->process != news->process || news->kind == PP_MC_TELLS_ROWS;
}

/* Sends the message to one port, or loses it. */
static void send_to(struct pp_memory_coordinator_server *s, struct pp_mc_client_port *port,
                    struct pp_memory_content *content, bool ok)
{
    struct pp_mc_news *news = content ? content->body : NULL;

    if (!news || !ok) {
        port->inbox.on_lost(port->inbox.data);
        return;
    }
    news->at_ms = pp_mc_now(s);
    news->set = s->set;
    news->seq = s->seq;
    pp_memory_tell(&s->o.post, &port->inbox, content);
}

/* Sends the message to those of the ports that watch none of the kinds `but`. */
static void send_to_all(struct pp_memory_coordinator_server *s, const struct pp_memory_sorted *ports,
                        uint32_t but, struct pp_memory_content *content, bool ok)
{
    for (size_t i = 0; i < ports->n; i++) {
        struct pp_mc_client_port *port = ports->at[i];
        if (port->listens && !(port->kinds & but) && is_for(port, content ? content->body : NULL))
            send_to(s, port, content, ok);
    }
}

void pp_mc_publish(struct pp_memory_coordinator_server *s, struct pp_memory_content *content, bool ok)
{
    const struct pp_mc_news *news = content ? content->body : NULL;
    uint32_t kinds = news && news->kind == PP_MC_TELLS_NOTICES ? news->kinds : 0;

    if (kinds == 0)
        send_to_all(s, &s->ports, 0, content, ok);
    for (int kind = 0; kind < PP_NOTICE_KINDS; kind++)
        if (kinds >> kind & 1) /* ports that watch an earlier kind have got it */
            send_to_all(s, &s->watching[kind], kinds & ((1U << kind) - 1), content, ok);
    if (content)
        pp_memory_content_drop(content);
}

void pp_mc_tell_process(struct pp_memory_coordinator_server *s, uint32_t process, enum pp_mc_kind kind)
{
    struct pp_mc_client_port *port = port_of(s, process);

    if (!port || !port->listens)
        return;
    struct pp_memory_content *content = pp_mc_news_new(kind, 0);
    send_to(s, port, content, true);
    if (content)
        pp_memory_content_drop(content);
}

/* --- announcements --- */

/* Begins the announcement, if it has not begun. Returns its number. */
static uint64_t begin(struct pp_mc_telling *t)
{
    if (t->seq == 0) {
        t->seq = ++t->s->seq;
        pp_list_init(&t->ports);
    }
    return t->seq;
}

static void open_letter(const struct pp_mc_telling *t, struct pp_mc_letter *letter)
{
    *letter = (struct pp_mc_letter){.open = true, .content = pp_mc_news_new(PP_MC_TELLS_ROWS, t->process)};
    letter->failed = !letter->content;
}

/* Makes room for one more row. */
static bool room_in_letter(struct pp_mc_letter *letter)
{
    struct pp_mc_news *news = letter->content->body;
    size_t cap = letter->cap ? letter->cap * 2 : 4;

    if (news->n < letter->cap)
        return true;
    struct pp_backlog_row *more = pp_arena_array(&letter->content->arena, cap, sizeof *more);
    if (!more)
        return false;
    if (news->n > 0)
        memcpy(more, news->rows, news->n * sizeof *more);
    news->rows = more;
    letter->cap = cap;
    return true;
}

static void write_rows(struct pp_mc_letter *letter, const char *client, const struct pp_backlog_row *rows,
                       size_t n)
{
    const char *name = letter->failed ? NULL : pp_arena_strdup(&letter->content->arena, client);

    letter->failed |= !name;
    for (size_t i = 0; i < n && !letter->failed; i++) {
        letter->failed = !room_in_letter(letter);
        if (letter->failed)
            break;
        struct pp_mc_news *news = letter->content->body;
        news->rows[news->n] = rows[i];
        news->rows[news->n++].client = name;
    }
}

/* Writes the rows of one client to a process, unless it has them already. */
static void write_to(struct pp_mc_telling *t, uint32_t process, const char *client,
                     const struct pp_backlog_row *rows, size_t n)
{
    struct pp_mc_client_port *port = port_of(t->s, process);

    if (!port || !port->listens || port->told == t->s->tellings)
        return;
    port->told = t->s->tellings;
    if (!port->letter.open) {
        open_letter(t, &port->letter);
        pp_list_push(&t->ports, &port->letter_node);
    }
    write_rows(&port->letter, client, rows, n);
}

static void write_to_near(struct pp_mc_telling *t, const char *client, const struct pp_backlog_row *rows,
                          size_t n)
{
    const struct pp_memory_sorted *circles = &t->s->circles;
    uint32_t position = pp_ring_position(client), near = pp_mc_near_count(t->s, client);

    for (size_t i = 0; i < circles->n; i++) {
        const struct pp_mc_circle *circle = circles->at[i];
        size_t all = circle->workers.n, first = pp_mc_circle_place(circle, position);
        for (size_t j = 0; j < near && j < all; j++) {
            const struct pp_mc_worker *w = circle->workers.at[(first + j) % all];
            write_to(t, w->process, client, rows, n);
        }
    }
}

static void write_to_holders(struct pp_mc_telling *t, const char *client, const struct pp_backlog_row *rows,
                             size_t n)
{
    int64_t now_ms = pp_mc_now(t->s);
    const struct pp_mc_client *c = pp_mc_client_find(t->s, client, now_ms);

    for (uint32_t k = 0; c && k < c->cut.n; k++)
        if (pp_mc_held(&c->shares[k], now_ms))
            write_to(t, c->shares[k].process, client, rows, n);
}

/* Announces rows of one client, whose times are relative to now. */
static void tell_rows(struct pp_mc_telling *t, const char *client, const struct pp_backlog_row *rows,
                      size_t n)
{
    (void)begin(t);
    if (pp_mc_is_ring_small(t->s)) {
        if (!t->all.open)
            open_letter(t, &t->all);
        write_rows(&t->all, client, rows, n);
        return;
    }
    t->s->tellings++;
    write_to_near(t, client, rows, n);
    write_to_holders(t, client, rows, n);
}

void pp_mc_tell_due(struct pp_mc_telling *t, const char *client, const int64_t due_ms[PP_QUEUES],
                    const struct pp_mc_share *holder)
{
    struct pp_backlog_row rows[PP_QUEUES];
    size_t n = 0;

    if (holder && pp_mc_is_ring_small(t->s))
        return;
    for (int q = 0; q < PP_QUEUES; q++)
        if (due_ms[q] != PP_MC_NEVER)
            rows[n++] = (struct pp_backlog_row){.queue = (uint8_t)q, .due_ms = due_ms[q] - pp_mc_now(t->s)};
    pp_mc_due_write(t->s, client, due_ms, begin(t));
    if (holder) {
        t->s->tellings++;
        write_to(t, holder->process, client, rows, n);
    } else {
        tell_rows(t, client, rows, n);
    }
}

void pp_mc_telling_end(struct pp_mc_telling *t)
{
    struct pp_node *node;

    if (t->seq == 0)
        return;
    if (t->all.open)
        pp_mc_publish(t->s, t->all.content, !t->all.failed);
    while ((node = pp_list_pop(&t->ports))) {
        struct pp_mc_client_port *port = pp_container_of(node, struct pp_mc_client_port, letter_node);
        struct pp_mc_letter letter = port->letter;
        port->letter = (struct pp_mc_letter){0};
        send_to(t->s, port, letter.content, !letter.failed);
        if (letter.content)
            pp_memory_content_drop(letter.content);
    }
}

/* --- announcements, as coord_announce.lua of adapter/redis --- */

static void lower(struct pp_memory_coordinator_server *s, const struct pp_backlog_row *row, int64_t due_ms)
{
    struct pp_mc_due *d = pp_mc_due_find(s, row->client);
    int64_t all[PP_QUEUES];

    pp_assert(row->queue < PP_QUEUES, "a row has no queue");
    for (int q = 0; q < PP_QUEUES; q++)
        all[q] = d ? d->due_ms[q] : PP_MC_NEVER;
    if (due_ms < all[row->queue])
        all[row->queue] = due_ms;
    pp_mc_due_write(s, row->client, all, s->seq);
}

enum pp_err pp_mc_run_announce(struct pp_memory_coordinator_server *s, struct pp_mc_announce *r,
                               struct pp_mc_call *call)
{
    if (r->forgot)
        s->complete = false;
    if (r->n == 0)
        return PP_OK;
    struct pp_mc_telling t = {.s = s, .process = call->process};
    (void)begin(&t);
    for (size_t i = 0; i < r->n; i++) {
        lower(s, &r->rows[i], call->now_ms + r->rows[i].due_ms);
        tell_rows(&t, r->rows[i].client, &r->rows[i], 1);
    }
    pp_mc_telling_end(&t);
    return PP_OK;
}
