/* settings.c: reads and writes the settings of clients and the learned routes. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store.h"

static void read_client(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_client *c)
{
    *c = (struct pp_client){.id = pp_sq_text(db, a, st, 0),
                            .stored = !pp_sq_is_null(st, 8),
                            .rpm_set = pp_sq_col(st, 1),
                            .rpm_unlimited = pp_sq_col(st, 2),
                            .rpm = (uint32_t)pp_sq_col(st, 3),
                            .concurrency = (uint32_t)pp_sq_col(st, 4),
                            .weight = (uint32_t)pp_sq_col(st, 5),
                            .paused = pp_sq_col(st, 6),
                            .headers = pp_sq_text(db, a, st, 7),
                            .updated_at = pp_sq_col(st, 8)};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum pp_err read_several(struct pp_sq_db *db, struct pp_store_clients *r)
{
    const char **ids = pp_sq_array(db, r->req.arena, r->n_ids, sizeof *ids);
    if (!ids)
        return db->err;
    memcpy(ids, r->ids, r->n_ids * sizeof *ids);
    qsort(ids, r->n_ids, sizeof *ids, by_text);
    for (size_t i = 0; i < r->n_ids; i++) {
        sqlite3_stmt *st = pp_sq_bind(db, PP_Q_CLIENT_GET, "t", ids[i]);
        if (pp_sq_row(db, st))
            read_client(db, st, r->req.arena, &r->clients[r->n++]);
        pp_sq_done(st);
    }
    return db->err;
}

enum pp_err pp_sr_clients(struct pp_sq_db *db, struct pp_store_clients *r)
{
    size_t limit = r->id ? 1 : r->ids ? r->n_ids : r->limit;
    r->n = 0;
    r->more = false;
    r->clients = pp_sq_array(db, r->req.arena, limit, sizeof *r->clients);
    if (r->ids)
        return read_several(db, r);
    sqlite3_stmt *st =
        r->id ? pp_sq_bind(db, PP_Q_CLIENT_GET, "t", r->id)
              : pp_sq_bind(db, PP_Q_CLIENT_LIST, "titdd", r->after ? r->after : "", (int64_t)limit + 1,
                           r->prefix ? r->prefix : "", (int)r->paused, r->batches);
    while (pp_sq_page(db, st, r->n, limit, &r->more))
        read_client(db, st, r->req.arena, &r->clients[r->n++]);
    return db->err;
}

/* Returns when the client's settings were written; 0: it has none. */
static int64_t written_at(struct pp_sw *w, const char *id)
{
    sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_CLIENT_GET, "t", id);
    int64_t at = pp_sq_row(&w->db, st) ? pp_sq_col(st, 8) : 0;
    pp_sq_done(st);
    return at;
}

enum pp_err pp_sw_put_client(struct pp_sw *w, struct pp_store_put_client *r)
{
    const struct pp_client *c = &r->client;
    if (r->compare && written_at(w, c->id) != r->read_at)
        return pp_sq_refuse(&w->db, PP_ESTALE);
    pp_sq_run(&w->db, PP_Q_CLIENT_PUT, "tddiiidti", c->id, c->rpm_set, c->rpm_unlimited, (int64_t)c->rpm,
              (int64_t)c->concurrency, (int64_t)c->weight, c->paused, c->headers, c->updated_at);
    return w->db.err;
}

static void read_route(struct pp_sq_db *db, sqlite3_stmt *st, struct pp_arena *a, struct pp_route_row *row)
{
    *row = (struct pp_route_row){.client = pp_sq_text(db, a, st, 0),
                                 .domain = pp_sq_text(db, a, st, 1),
                                 .tier = (uint8_t)pp_sq_col(st, 2),
                                 .tier_ms = pp_sq_col(st, 3),
                                 .weight_sum = sqlite3_column_double(st, 4),
                                 .value_sum = sqlite3_column_double(st, 5),
                                 .samples = (uint32_t)pp_sq_col(st, 6),
                                 .updated_at = pp_sq_col(st, 7)};
}

enum pp_err pp_sr_routes(struct pp_sq_db *db, struct pp_store_routes *r)
{
    const char *client = r->after_client ? r->after_client : "",
               *domain = r->after_domain ? r->after_domain : "";
    int64_t want = (int64_t)r->limit + 1;
    r->n = 0;
    r->more = false;
    r->rows = pp_sq_array(db, r->req.arena, r->limit, sizeof *r->rows);
    sqlite3_stmt *st = r->client ? pp_sq_bind(db, PP_Q_ROUTE_LIST_CLIENT, "tttit", client, domain, r->domain,
                                              want, r->client)
                                 : pp_sq_bind(db, PP_Q_ROUTE_LIST, "ttti", client, domain, r->domain, want);
    while (pp_sq_page(db, st, r->n, r->limit, &r->more))
        read_route(db, st, r->req.arena, &r->rows[r->n++]);
    return db->err;
}

enum pp_err pp_sw_save_routes(struct pp_sw *w, struct pp_store_save_routes *r)
{
    for (size_t i = 0; i < r->n && w->db.err == PP_OK; i++) {
        const struct pp_route_row *row = &r->rows[i];
        pp_assert(row->tier < PP_QUEUE_SUSPECT, "a route leads to a tier that has no queue");
        pp_sq_run(&w->db, PP_Q_ROUTE_PUT, "ttdiffii", row->client, row->domain, row->tier, row->tier_ms,
                  row->weight_sum, row->value_sum, (int64_t)row->samples, row->updated_at);
    }
    return w->db.err;
}
