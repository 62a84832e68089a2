/* message.c: messages from servers in memory to ports, and the plain post. */
#include "adapter/memory/message.h"

#include <stdlib.h>

#include "base/check.h"

/* --- contents --- */

struct pp_memory_content *pp_memory_content_new(size_t size)
{
    struct pp_memory_content *content = calloc(1, sizeof *content);

    if (!content)
        return NULL;
    content->holders = 1;
    pp_arena_init(&content->arena, 0);
    content->body = pp_arena_alloc(&content->arena, size);
    if (content->body)
        return content;
    pp_memory_content_drop(content);
    return NULL;
}

void pp_memory_content_drop(struct pp_memory_content *content)
{
    pp_assert(content->holders > 0, "a content was dropped too often");
    if (--content->holders > 0)
        return;
    pp_arena_fini(&content->arena);
    free(content);
}

/* --- messages --- */

/* Frees a message, and drops its content. */
static void free_message(struct pp_memory_message *m)
{
    if (m->to)
        pp_list_remove(&m->to->on_way, &m->on_way);
    pp_memory_content_drop(m->content);
    free(m);
}

void pp_memory_arrive(struct pp_memory_message *m)
{
    struct pp_memory_inbox *to = m->to;
    struct pp_memory_content *content = m->content;
    bool in_order = to && to->on_way.head.next == &m->on_way;

    content->holders++;
    free_message(m);
    if (to)
        to->on_message(to->data, content->body, in_order);
    pp_memory_content_drop(content);
}

void pp_memory_lose(struct pp_memory_message *m)
{
    struct pp_memory_inbox *to = m->to;

    free_message(m);
    if (to)
        to->on_lost(to->data);
}

void pp_memory_tell(const struct pp_memory_post *post, struct pp_memory_inbox *to,
                    struct pp_memory_content *content)
{
    struct pp_memory_message *m = malloc(sizeof *m);

    if (!m) {
        to->on_lost(to->data);
        return;
    }
    content->holders++;
    *m = (struct pp_memory_message){.to = to, .content = content};
    pp_list_push(&to->on_way, &m->on_way);
    if (post->post) {
        post->post(post->data, to->line, m);
        return;
    }
    if (pp_list_empty(&to->waiting))
        pp_timer_start(to->timer, 0, 0);
    pp_list_push(&to->waiting, &m->node);
}

/* --- inboxes --- */

static void on_turn(void *data)
{
    struct pp_memory_inbox *inbox = data;
    struct pp_list messages;
    struct pp_node *node;

    /* The receiver may close the inbox: then the list has messages to nobody. */
    pp_list_init(&messages);
    pp_list_splice(&messages, &inbox->waiting);
    while ((node = pp_list_pop(&messages)))
        pp_memory_arrive(pp_container_of(node, struct pp_memory_message, node));
}

enum pp_err pp_memory_inbox_open(struct pp_memory_inbox *inbox)
{
    pp_assert(inbox->line && inbox->on_message && inbox->on_lost, "an inbox has no owner");
    pp_list_init(&inbox->on_way);
    pp_list_init(&inbox->waiting);
    inbox->timer = pp_timer_open(inbox->line->loop, on_turn, inbox);
    return inbox->timer ? PP_OK : PP_ENOMEM;
}

void pp_memory_inbox_clear(struct pp_memory_inbox *inbox)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&inbox->on_way)))
        pp_container_of(node, struct pp_memory_message, on_way)->to = NULL;
    while ((node = pp_list_pop(&inbox->waiting)))
        free_message(pp_container_of(node, struct pp_memory_message, node));
}

void pp_memory_inbox_close(struct pp_memory_inbox *inbox)
{
    pp_memory_inbox_clear(inbox);
    pp_timer_close(inbox->timer);
    inbox->timer = NULL;
}
