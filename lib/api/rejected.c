/* rejected.c: GET /v1/batches/{id}/rejected: the verdicts on the rejected items of a batch, which
 * the store keeps in parts (accept/rejected.h).
 *
 * The planner writes the parts. While the batch waits in the queue, which is short as a rule, the
 * call asks again each ASK_AGAIN_MS, and gives up after WAIT_MS. */
#include "pipeline/accept/rejected.h"
#include "api/batch.h"
#include "api/handler.h"

#define ASK_AGAIN_MS 50
#define WAIT_MS      5000

struct rejected_state {
    struct pp_batch_find find;
    struct pp_store_rejected parts;
    struct pp_timer *again; /* set while the batch waits in the queue */
    int64_t since;
};

static void free_rejected(struct pp_call *call)
{
    pp_timer_close(((struct rejected_state *)call->state)->again);
}

/* Writes the verdicts of a part that belong to the page. Returns false if the page is full. */
static bool write_part(struct pp_call *call, const struct pp_rejected_part *part, const struct pp_buf *bytes)
{
    struct pp_page *page = &call->page;
    struct pp_reader r = {.p = bytes->p, .n = bytes->n};
    size_t n;

    for (uint64_t number = (uint64_t)part->number * PP_REJECTED_PART; r.n > 0 && !r.failed; number++) {
        const char *verdict = pp_read_str(&r, &n);
        if (number < page->after_number)
            continue;
        if (number >= page->after_number + page->limit || !pp_page_has_room(call))
            return false;
        pp_json_raw(&call->out, NULL, verdict, n);
        page->last_number = number + 1;
    }
    return true;
}

static void send_rejected(struct pp_call *call)
{
    const struct rejected_state *s = call->state;
    bool room = true;

    pp_page_open(call);
    for (size_t i = 0; room && i < s->parts.n; i++) {
        struct pp_buf bytes;
        pp_buf_init(&bytes, SIZE_MAX / 2);
        bool ok = pp_rejected_unpack(&bytes, s->parts.parts[i].bytes, s->parts.parts[i].n);
        room = ok && write_part(call, &s->parts.parts[i], &bytes);
        pp_buf_fini(&bytes);
        if (!ok) {
            pp_call_error(call, PP_ECORRUPT, "reading rejected items");
            return;
        }
    }
    pp_page_send(call, call->page.last_number > 0 && call->page.last_number < s->find.batch.items_rejected);
}

static void find_batch(struct pp_call *call);

static void on_again(void *data)
{
    find_batch(data);
}

/* The parts of a batch that waits in the queue are not in the store yet. */
static void wait_for_plan(struct pp_call *call)
{
    struct rejected_state *s = call->state;
    int64_t now = pp_loop_now(call->o->loop);

    s->since = s->since ? s->since : now;
    if (!s->again)
        s->again = pp_timer_open(call->o->loop, on_again, call);
    if (!s->again)
        pp_call_no_memory(call);
    else if (now - s->since >= WAIT_MS)
        pp_call_problem(call, PP_API_OVERLOADED, NULL, "the batch is not planned yet");
    else
        pp_timer_start(s->again, ASK_AGAIN_MS, 0);
}

static void on_batch_found(struct pp_call *call)
{
    struct rejected_state *s = call->state;
    uint64_t from = call->page.after_number / PP_REJECTED_PART;

    if (s->find.batch.items_rejected == 0) {
        send_rejected(call);
        return;
    }
    if (s->find.queued) {
        wait_for_plan(call);
        return;
    }
    s->parts.batch_id = call->args[0];
    s->parts.client = s->find.batch.client;
    s->parts.from = from > UINT32_MAX ? UINT32_MAX : (uint32_t)from;
    s->parts.limit = call->page.limit / PP_REJECTED_PART + 2;
    PP_CALL_ASK(call, call->o->store, rejected, &s->parts, "reading rejected items", send_rejected);
}

static void find_batch(struct pp_call *call)
{
    pp_batch_find(call, call->args[0], on_batch_found);
}

void pp_api_list_rejected(struct pp_call *call)
{
    pp_call_state(call, sizeof(struct rejected_state));
    call->cleanup = free_rejected;
    if (pp_page_read(call, "rejected", call->args[0]))
        find_batch(call);
}
