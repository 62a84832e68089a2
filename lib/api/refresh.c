/* refresh.c: POST /v1/items/{client}/{item}/refresh: imports the newest revision of an item again,
 * as a batch of its own that fetches every photo. */
#include "api/batch.h"
#include "api/handler.h"
#include "core/entry.h"

struct refresh_state {
    struct pp_store_item item;
    struct pp_acceptor_post post;
};

static void free_refresh(struct pp_call *call)
{
    pp_acceptor_post_fini(&((struct refresh_state *)call->state)->post);
}

static void write_answer(const struct pp_acceptor_post *post, struct pp_buf *out)
{
    PP_JSON_OBJECT(out, NULL, PP_STR("batch_id", post->batch_id));
}

/* Writes the item into the entry. Returns false if there is too little memory for it; the call has
 * then been answered. */
static bool fill_entry(struct pp_call *call, struct pp_batch_parsed *out, const struct pp_item *item)
{
    size_t urls = 0, meta_n = item->meta ? strlen(item->meta) : 0;

    for (uint32_t i = 0; i < item->n_photos; i++)
        urls += item->photos[i].url_n;
    size_t size = pp_entry_item_size(strlen(item->id), meta_n, item->n_photos, urls) + 64;
    if (!pp_page_charge(call, 2 * size)) /* the buffer doubles its capacity */
        return false;
    pp_buf_init(&out->entry, size);
    pp_entry_begin(&out->entry);
    pp_entry_item(&out->entry, 0, item->id, strlen(item->id), item->meta, meta_n, item->n_photos);
    for (uint32_t i = 0; i < item->n_photos; i++)
        pp_entry_photo(&out->entry, item->photos[i].url, item->photos[i].url_n);
    out->n_items = 1;
    out->n_photos = item->n_photos;
    return !out->entry.failed || pp_call_no_memory(call);
}

static void on_item_read(struct pp_call *call)
{
    struct refresh_state *s = call->state;
    struct pp_acceptor_post *post = &s->post;

    pp_assert(strcmp(s->item.item.id, s->item.id) == 0, "the store has read another item");
    if (!fill_entry(call, &post->parsed, &s->item.item))
        return;
    pp_buf_init(&post->parsed.rejected, 16);
    snprintf(post->parsed.client, sizeof(post->parsed.client), "%s", s->item.client);
    post->parsed.refresh = PP_REFRESH_ALWAYS;
    post->only_client = call->only_client;
    post->begun_ms = call->begun_ms;
    post->key = call->req->idempotency_key;
    post->key_context = call->req->path;
    post->body.p = call->req->body;
    post->body.n = call->req->body_n;
    post->write_answer = write_answer;
    post->done = pp_batch_posted;
    post->data = call;
    pp_acceptor_enter(call->api->acceptor, post);
}

void pp_api_refresh_item(struct pp_call *call)
{
    struct refresh_state *s = pp_call_state(call, sizeof(*s));

    call->cleanup = free_refresh;
    if (!pp_item_named(call, &s->item))
        return;
    PP_CALL_ASK(call, call->o->store, item, &s->item, "reading an item", on_item_read);
}
