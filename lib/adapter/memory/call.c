/* call.c: calls from ports to servers in memory, and plain lines. */
#include "adapter/memory/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* --- a call --- */

static void free_call(struct pp_memory_call *call)
{
    pp_arena_fini(&call->copied);
    free(call);
}

enum pp_err pp_memory_submit(struct pp_memory_line *line, const struct pp_memory_op *op, void *server,
                             struct pp_req *req)
{
    struct pp_memory_call *call = malloc(sizeof *call);

    if (!call)
        return PP_ENOMEM;
    *call = (struct pp_memory_call){.op = op, .server = server, .req = req};
    pp_arena_init(&call->copied, 0);
    if (line->send) {
        line->send(line, call);
        return PP_OK;
    }
    if (pp_list_empty(&line->waiting))
        pp_timer_start(line->timer, 0, 0);
    pp_list_push(&line->waiting, &call->node);
    return PP_OK;
}

void pp_memory_run(struct pp_memory_call *call)
{
    pp_assert(!call->ran, "a call ran twice");
    call->ran = true;
    call->err = call->op->run(call->server, call->req);
    if (call->ended)
        free_call(call);
}

/* Lets the call have a copy of the request, which belongs to the caller. */
static bool keep_request(struct pp_memory_call *call)
{
    struct pp_req *copy = (void *)pp_arena_copy(&call->copied, call->req, call->op->size);

    if (!call->op->copy || !copy || !call->op->copy(copy, &call->copied))
        return false;
    copy->arena = &call->copied;
    call->req = copy;
    return true;
}

void pp_memory_end(struct pp_memory_call *call, enum pp_err err, bool *gone)
{
    struct pp_req *req = call->req;

    pp_assert(!call->ended && (err != PP_OK || call->ran), "a call ended twice, or without an answer");
    call->ended = true;
    err = err == PP_OK ? call->err : err;
    *gone = call->ran || !keep_request(call);
    if (*gone)
        free_call(call);
    pp_req_end(req, err);
}

void pp_memory_drop(struct pp_memory_call *call)
{
    pp_assert(call->ended && !call->ran, "a call was dropped that waits, or has run");
    free_call(call);
}

/* --- a plain line --- */

static void on_turn(void *data)
{
    struct pp_memory_line *line = data;
    struct pp_list calls;
    struct pp_node *node;
    bool gone;

    /* Calls that the callbacks submit wait for the next turn. */
    pp_list_init(&calls);
    pp_list_splice(&calls, &line->waiting);
    while ((node = pp_list_pop(&calls))) {
        struct pp_memory_call *call = pp_container_of(node, struct pp_memory_call, node);
        pp_memory_run(call);
        pp_memory_end(call, PP_OK, &gone);
    }
}

enum pp_err pp_memory_line_open(struct pp_memory_line *line, struct pp_loop *loop)
{
    *line = (struct pp_memory_line){.loop = loop, .timer = pp_timer_open(loop, on_turn, line)};
    pp_list_init(&line->waiting);
    return line->timer ? PP_OK : PP_ENOMEM;
}

void pp_memory_line_close(struct pp_memory_line *line)
{
    pp_assert(pp_list_empty(&line->waiting), "a line was closed while calls wait");
    pp_timer_close(line->timer);
}
