/* delivery_webhook.c: endpoints of webhooks. An endpoint is created and deleted together with its
 * sink. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "delivery_data.h"

static int webhook_order(const void *name, const void *webhook)
{
    return strcmp(name, ((const struct pp_md_webhook *)webhook)->w.name);
}

static void sink_name(char out[PP_SINK_NAME_MAX], const char *webhook)
{
    int n = snprintf(out, PP_SINK_NAME_MAX, PP_SINK_WEBHOOK "%s", webhook);
    pp_assert(n >= (int)sizeof PP_SINK_WEBHOOK && n < PP_SINK_NAME_MAX,
              "an endpoint's name has a wrong length");
}

/* --- reading --- */

/* Copies an endpoint to an answer. */
static bool webhook_out(struct pp_arena *a, const struct pp_md_webhook *from, struct pp_webhook *w)
{
    const char **const texts[] = {&w->name, &w->url, &w->filter, &w->secret, &w->old_secret};
    bool ok = true;
    *w = from->w;
    for (size_t i = 0; ok && i < sizeof texts / sizeof *texts; i++)
        ok = !*texts[i] || (*texts[i] = pp_arena_strdup(a, *texts[i]));
    return ok;
}

enum pp_err pp_md_run_webhooks(struct pp_memory_delivery *s, struct pp_webhooks *r)
{
    const struct pp_memory_sorted *all = &s->webhooks;
    const char *from = r->name ? r->name : r->after ? r->after : "";
    size_t at = pp_memory_sorted_place(all, from, webhook_order), end = all->n;
    bool found = at < all->n && webhook_order(from, all->at[at]) == 0;
    if (r->name)
        end = at + found;
    else
        at += found;
    size_t n = r->name || end - at < r->limit ? end - at : r->limit;
    r->more = end - at > n;
    r->n = 0;
    r->webhooks = pp_arena_array(r->req.arena, n, sizeof *r->webhooks);
    while (r->webhooks && r->n < n)
        if (!webhook_out(r->req.arena, all->at[at++], &r->webhooks[r->n++]))
            return PP_ENOMEM;
    return r->webhooks ? PP_OK : PP_ENOMEM;
}

/* --- writing --- */

static struct pp_md_webhook *webhook_new(const struct pp_webhook *w)
{
    struct pp_md_webhook *made =
        malloc(sizeof *made + pp_md_text_size(w->name) + pp_md_text_size(w->url) +
               pp_md_text_size(w->filter) + pp_md_text_size(w->secret) + pp_md_text_size(w->old_secret));
    if (!made)
        return NULL;
    char *to = made->texts;
    made->w = *w;
    made->w.version++;
    pp_md_text_move(&made->w.name, &to);
    pp_md_text_move(&made->w.url, &to);
    pp_md_text_move(&made->w.filter, &to);
    pp_md_text_move(&made->w.secret, &to);
    pp_md_text_move(&made->w.old_secret, &to);
    return made;
}

/* Replaces the endpoint at this index. If `made` is new, adds it there, with its sink. Returns
 * false when out of memory. */
static bool put(struct pp_memory_delivery *s, size_t i, struct pp_md_webhook *made, bool is_new,
                uint64_t start_at)
{
    char sink[PP_SINK_NAME_MAX];
    if (!is_new) {
        free(s->webhooks.at[i]);
        s->webhooks.at[i] = made;
        return true;
    }
    sink_name(sink, made->w.name);
    if (!pp_memory_sorted_reserve(&s->webhooks, s->webhooks.n + 1) || !pp_md_sink_add(s, sink, start_at))
        return false;
    pp_memory_sorted_insert(&s->webhooks, i, made);
    return true;
}

enum pp_err pp_md_run_put_webhook(struct pp_memory_delivery *s, struct pp_webhook_put *r)
{
    size_t i = pp_memory_sorted_place(&s->webhooks, r->webhook.name, webhook_order);
    const struct pp_md_webhook *was = i < s->webhooks.n ? s->webhooks.at[i] : NULL;
    if (was && webhook_order(r->webhook.name, was) != 0)
        was = NULL;
    if (r->webhook.version != (was ? was->w.version : 0))
        return PP_ESTALE;
    struct pp_md_webhook *made = webhook_new(&r->webhook);
    if (!made || !put(s, i, made, !was, r->start_at)) {
        free(made);
        return PP_ENOMEM;
    }
    r->webhook.version = made->w.version;
    return PP_OK;
}

enum pp_err pp_md_run_delete_webhook(struct pp_memory_delivery *s, struct pp_webhook_delete *r)
{
    char sink[PP_SINK_NAME_MAX];
    size_t i = pp_memory_sorted_place(&s->webhooks, r->name, webhook_order);
    sink_name(sink, r->name);
    if (i == s->webhooks.n || webhook_order(r->name, s->webhooks.at[i]) != 0)
        return PP_ENOTFOUND;
    free(pp_memory_sorted_remove(&s->webhooks, i));
    pp_md_sink_delete(s, sink);
    return PP_OK;
}
