/* chunk.c: reads one chunk of an entry, and decides what each of its photos needs: nothing (the
 * photo is known, is skipped, has a URL that may not be fetched, or its entry is given up), or a
 * task in the tier of its route. The rules of the decision are in core/plan.h. */
#include <stdio.h>
#include <string.h>

#include "core/plan.h"
#include "core/target.h"
#include "format/ids.h"
#include "photopool/code.h"
#include "pipeline/hosts/hosts.h"
#include "pipeline/plan/plan_internal.h"

#define CHUNK_PHOTOS 512
#define GIVEN_UP     "the batch could not be planned, and an operator has given it up"

static bool read_photos(struct plan_job *job, struct pp_plan_item *item, size_t *n_fetchable)
{
    struct pp_url url;
    char *scratch = job->planner->scratch, why[PP_URL_WHY_MAX];
    const char *text;
    size_t n;

    for (uint32_t i = 0; i < item->n_photos; i++) {
        struct pp_plan_photo *photo = &item->photos[i];
        if (!pp_entry_next_photo(&job->reader, &text, &n))
            return false;
        photo->url = pp_arena_copy(&job->arena, text, n);
        if (!photo->url)
            return false;
        photo->url_n = (uint32_t)n;
        uint16_t code = pp_target_read(&job->planner->o.params->policy, &url, text, n, scratch, why);
        if (code == PP_CODE_INTERNAL)
            return false;
        photo->key = pp_photo_key(job->entry->client, &url, text, n);
        photo->domain = pp_arena_strdup(&job->arena, url.host);
        if (!photo->domain)
            return false;
        if (code == 0 && job->entry->given_up) {
            code = PP_CODE_INTERNAL;
            snprintf(why, sizeof(why), "%s", GIVEN_UP);
        }
        if (code == 0) {
            job->fetchable[(*n_fetchable)++] = photo;
            continue;
        }
        photo->outcome = (struct pp_outcome){
            .kind = PP_OUTCOME_FAILED, .code = code, .detail = pp_arena_strdup(&job->arena, why)};
        if (!photo->outcome.detail)
            return false;
    }
    return true;
}

static bool read_item(struct plan_job *job, const struct pp_entry_item *from, struct pp_plan_item *item,
                      size_t *n_fetchable)
{
    *item = (struct pp_plan_item){
        .id = pp_arena_copy(&job->arena, from->id, from->id_n),
        .meta = from->meta ? pp_arena_copy(&job->arena, from->meta, from->meta_n) : NULL,
        .photos = pp_arena_array(&job->arena, from->n_photos, sizeof(struct pp_plan_photo)),
        .n_photos = from->n_photos,
        .index = from->index};
    return item->id && item->photos && (!from->meta || item->meta) && read_photos(job, item, n_fetchable);
}

/* Adds the part of verdicts that was read ahead to the chunk. The bytes stay in the entry. */
static bool add_rejected(struct plan_job *job, size_t *cap)
{
    if (job->n_rejected == *cap) {
        size_t more = *cap ? *cap * 2 : 16;
        struct pp_rejected_part *parts = pp_arena_array(&job->arena, more, sizeof(*parts));
        if (!parts)
            return false;
        if (job->n_rejected > 0)
            memcpy(parts, job->rejected, job->n_rejected * sizeof(*parts));
        job->rejected = parts;
        *cap = more;
    }
    job->rejected[job->n_rejected++] = (struct pp_rejected_part){
        .number = job->ahead.index, .bytes = job->ahead.rejected, .n = job->ahead.rejected_n};
    return true;
}

enum pp_err plan_chunk_read(struct plan_job *job, struct plan_chunk_size *size)
{
    size_t photos = 0, cap = 0, max_items = job->planner->o.params->plan_chunk;
    /* What is left of the entry has at most one photo per length of a URL. */
    size_t left = job->reader.r.n / sizeof(uint32_t), max_photos = CHUNK_PHOTOS + PP_ENTRY_PHOTOS_MAX;

    *size = (struct plan_chunk_size){0};
    job->items = pp_arena_array(&job->arena, max_items, sizeof(*job->items));
    job->fetchable =
        pp_arena_array(&job->arena, left < max_photos ? left : max_photos, sizeof(struct pp_plan_photo *));
    if (!job->items || !job->fetchable)
        return PP_ENOMEM;
    job->n_rejected = 0;
    while (job->has_ahead || pp_entry_next(&job->reader, &job->ahead)) {
        job->has_ahead = true;
        if (job->ahead.rejected) {
            if (!add_rejected(job, &cap))
                return PP_ENOMEM;
            job->has_ahead = false;
            continue;
        }
        photos += job->ahead.n_photos;
        if (size->items == max_items || (size->items > 0 && photos > CHUNK_PHOTOS))
            break;
        if (!read_item(job, &job->ahead, &job->items[size->items], &size->fetchable))
            return job->reader.r.failed ? PP_ECORRUPT : PP_ENOMEM;
        job->has_ahead = false;
        size->items++;
    }
    return job->reader.r.failed ? PP_ECORRUPT : PP_OK;
}

static void decide(struct plan_job *job, struct pp_plan_photo *photo, const struct pp_photo *record)
{
    const struct pp_planner_options *o = &job->planner->o;
    const struct pp_plan_rule rule = {
        .refresh = job->entry->refresh, .max_age_ms = job->entry->max_age_ms, .replay = job->entry->replay};
    struct pp_plan_decision d =
        pp_plan_decide(&rule, record, o->params->ladder_max_ms, pp_loop_date(o->loop));

    if (d.what == PP_PLAN_KNOWN) {
        photo->outcome = (struct pp_outcome){
            .kind = PP_OUTCOME_UNCHANGED, .object = record->object, .fetched_at = record->fetched_at};
        return;
    }
    if (d.what == PP_PLAN_SKIP) {
        photo->outcome = (struct pp_outcome){.kind = PP_OUTCOME_SKIPPED,
                                             .code = record->fail_code,
                                             .detail = record->fail_detail,
                                             .retry_at = d.retry_at_ms,
                                             .checked_at = record->failed_at,
                                             .skips_left = d.skips_left};
        return;
    }
    photo->outcome.kind = PP_OUTCOME_OPEN;
    photo->always = job->entry->refresh == PP_REFRESH_ALWAYS;
    photo->known = record->object;
    photo->known_fetched_at = record->fetched_at;
    if (d.what == PP_PLAN_FETCH_CONDITIONAL) {
        photo->etag = record->etag;
        photo->last_modified = record->last_modified;
    }
    pp_routes_place(o->routes, job->entry->client, photo->domain, pp_loop_wall(o->loop), &photo->tier,
                    &photo->due_ms);
    struct pp_host_gate gate = pp_hosts_gate(o->hosts, photo->domain, 0, NULL);
    if (pp_hosts_parks(o->hosts, &gate)) {
        photo->park_ms = gate.until_ms;
        photo->wait_until_ms = gate.wait_until_ms;
    }
}

void plan_chunk_decide(struct plan_job *job)
{
    pp_assert(job->lookup.n > 0 && job->lookup.photos, "nothing was looked up");
    for (size_t i = 0; i < job->lookup.n; i++)
        decide(job, job->fetchable[i], &job->lookup.photos[i]);
}

void plan_chunk_absent(struct plan_job *job, const bool *absent)
{
    static const struct pp_photo none = {.found = false};
    size_t left = 0;

    for (size_t i = 0; i < job->n_fetchable; i++)
        if (absent[i])
            decide(job, job->fetchable[i], &none);
        else
            job->fetchable[left++] = job->fetchable[i];
    job->n_fetchable = left;
}
