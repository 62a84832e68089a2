/* event_line.c: see event_line.h. */
#include "event_line.h"

#include "client.h"
#include "tally.h"

#include <stdlib.h>
#include <string.h>

enum { EVENT_LINE_MAX = 16 * 1024, SEQ_COLUMNS = 7, LEAST_COLUMNS = 12 };

/* The part of a line after time, number and key: a styled word, then a text that may be cut. */
struct happening {
    struct pp_buf before, text; /* before: the styled word */
    const char *word;
};

static const char *member(const json_t *o, const char *name)
{
    const char *s = pp_member(o, name);
    return s ? s : "";
}

/* Appends "2026-11-20T10:00:00.000Z" as "2026-11-20 10:00:00". */
static void put_time(struct pp_buf *b, const char *time, bool colour)
{
    char text[20] = "-                  ";
    if (strlen(time) >= 19) {
        memcpy(text, time, 19);
        text[10] = ' ';
    }
    pp_put_styled(b, colour, PP_DIM, text);
}

/* Appends the key, such as "results:42". */
static void put_key(struct pp_buf *b, const json_t *key)
{
    size_t i;
    json_t *part;
    json_array_foreach(key, i, part)
    {
        pp_buf_puts(b, i ? ":" : "");
        pp_put_clean(b, json_string_value(part) ? json_string_value(part) : "?");
    }
}

/* Describes an item's result, as in "ad-1 r3", "partial", "2 of 3 photos, http_404: not found". */
static void put_result(struct happening *h, const json_t *result)
{
    const json_t *data = json_object_get(result, "data"), *photos = json_object_get(data, "photos"), *error;
    size_t stored = pp_photos_stored(photos, &error);
    pp_put_clean(&h->before, member(data, "item"));
    pp_buf_printf(&h->before, " r%lld", (long long)json_number_value(json_object_get(data, "revision")));
    h->word = member(data, "status");
    pp_buf_printf(&h->text, "%zu of %zu photos", stored, json_array_size(photos));
    if (error) {
        pp_buf_puts(&h->text, ", ");
        pp_put_clean(&h->text, member(error, "code"));
        pp_buf_puts(&h->text, ": ");
        pp_put_clean(&h->text, member(error, "detail"));
    }
}

/* Describes a batch, as in "running", "12/400 items, 30/1,200 photos, 5 failed: ..., 85/s, eta 3s".
 */
static void put_batch(struct happening *h, const json_t *batch)
{
    struct pp_tally p = {0};
    struct pp_buf failed;
    pp_buf_init(&failed, EVENT_LINE_MAX);
    pp_tally_add(&p, batch);
    h->word = member(batch, "state");
    pp_put_share(&h->text, p.items);
    pp_buf_puts(&h->text, " items, ");
    pp_put_share(&h->text, p.photos);
    pp_buf_puts(&h->text, " photos");
    if (!pp_tally_done(&p) && p.per_second > 0)
        pp_buf_printf(&h->text, ", %.3g/s", p.per_second);
    if (!pp_tally_done(&p) && p.eta_seconds >= 0) {
        pp_buf_puts(&h->text, ", eta ");
        pp_put_seconds(&h->text, (int64_t)(p.eta_seconds + 0.5));
    }
    pp_put_failed(&failed, &p);
    if (failed.n > 0)
        pp_buf_printf(&h->text, ", failed %s", failed.p);
    pp_buf_fini(&failed);
    pp_tally_fini(&p);
}

/* Describes an event of unknown type as "name value, name value". */
static void put_other(struct happening *h, const json_t *data)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)data, name, v)
    {
        char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
        pp_buf_puts(&h->text, h->text.n ? ", " : "");
        pp_put_clean(&h->text, name);
        pp_buf_putc(&h->text, ' ');
        pp_put_clean(&h->text, text ? text : json_is_string(v) ? json_string_value(v) : "?");
        free(text);
    }
}

static const struct {
    const char *type;
    void (*put)(struct happening *h, const json_t *data);
} kinds[] = {
    {"photopool.item.finished", put_result},
    {"photopool.batch.progress", put_batch},
    {"photopool.batch.finished", put_batch},
};

static void put_happening(struct happening *h, const json_t *event)
{
    static const char ours[] = "photopool.";
    const char *type = member(event, "type");
    const json_t *data = json_object_get(event, "data");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].type, type) == 0) {
            kinds[i].put(h, data);
            return;
        }
    }
    h->word = strncmp(type, ours, sizeof ours - 1) == 0 ? type + sizeof ours - 1 : type;
    put_other(h, data);
}

static const char *text_of(const struct pp_buf *b)
{
    return b->p ? b->p : "";
}

void pp_put_event(struct pp_buf *b, const json_t *event, size_t width, bool colour)
{
    struct happening h = {.word = ""};
    struct pp_buf head, word;
    pp_buf_init(&h.before, EVENT_LINE_MAX);
    pp_buf_init(&h.text, EVENT_LINE_MAX);
    pp_buf_init(&head, EVENT_LINE_MAX);
    pp_buf_init(&word, EVENT_LINE_MAX);
    put_happening(&h, event);
    pp_put_clean(&word, h.word);

    put_time(b, member(event, "time"), colour);
    pp_buf_printf(&head, "  %*lld  ", SEQ_COLUMNS,
                  (long long)json_number_value(json_object_get(event, "seq")));
    put_key(&head, json_object_get(event, "key"));
    pp_buf_puts(&head, "  ");
    if (h.before.n)
        pp_buf_printf(&head, "%s  ", h.before.p);
    size_t used = 19 + pp_columns(text_of(&head)) + pp_columns(text_of(&word)) + 2;
    pp_buf_puts(b, text_of(&head));
    pp_put_styled(b, colour, pp_style_of(h.word), text_of(&word));
    pp_buf_puts(b, "  ");
    pp_put_fit(b, text_of(&h.text), width > used + LEAST_COLUMNS ? width - used : LEAST_COLUMNS);
    pp_buf_putc(b, '\n');
    pp_buf_fini(&h.before);
    pp_buf_fini(&h.text);
    pp_buf_fini(&head);
    pp_buf_fini(&word);
}
