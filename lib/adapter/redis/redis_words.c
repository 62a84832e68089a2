/* redis_words.c: builds the words of a call in Redis' wire format, packs integers, and checks the
 * shapes of answers. */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "adapter/redis/redis_conn.h"
#include "base/check.h"

enum { WORDS_BYTES_MAX = 512 << 20, KEPT_BYTES = 1 << 20, WORDS_MAX = 8192 };

void pp_redis_call_begin(struct pp_redis_call *c, const char *name, const struct pp_redis_script *script)
{
    pp_assert(c->open_at == 0, "a call begins while a word is open");
    if (c->words.max == 0)
        pp_buf_init(&c->words, WORDS_BYTES_MAX);
    else if (c->words.cap > KEPT_BYTES)
        pp_buf_fini(&c->words);
    pp_buf_reset(&c->words);
    c->name = name;
    c->script = script;
    c->n = c->n_keys = 0;
}

void pp_redis_call_fini(struct pp_redis_call *c)
{
    if (c->words.max > 0)
        pp_buf_fini(&c->words);
}

void pp_redis_put(struct pp_redis_call *c, const void *p, size_t n)
{
    pp_assert(c->open_at == 0, "a word is put into an open word");
    pp_buf_printf(&c->words, "$%zu\r\n", n);
    pp_buf_put(&c->words, p ? p : "", p ? n : 0);
    pp_buf_put(&c->words, "\r\n", 2);
    c->words.failed |= !p || c->n == WORDS_MAX;
    c->n++;
}

void pp_redis_put_text(struct pp_redis_call *c, const char *s)
{
    pp_redis_put(c, s, s ? strlen(s) : 0);
}

void pp_redis_put_num(struct pp_redis_call *c, int64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, v);
    pp_redis_put(c, text, (size_t)n);
}

void pp_redis_put_written(struct pp_redis_call *c, const char *p, size_t n, size_t n_words)
{
    pp_assert(c->open_at == 0, "a word is put into an open word");
    pp_buf_put(&c->words, p, n);
    c->words.failed |= n_words > WORDS_MAX - c->n;
    c->n += n_words;
}

struct pp_buf *pp_redis_word_open(struct pp_redis_call *c)
{
    pp_assert(c->open_at == 0, "a word is opened within a word");
    c->open_at = c->words.n + 1; /* plus 1, because 0 means that no word is open */
    return &c->words;
}

/* Ends the open word: moves its content up, and writes its length in front of it. */
void pp_redis_word_close(struct pp_redis_call *c)
{
    char head[24];
    struct pp_buf *b = &c->words;

    pp_assert(c->open_at > 0, "a word is closed that is not open");
    size_t at = c->open_at - 1, n = b->failed ? 0 : b->n - at;
    int head_n = snprintf(head, sizeof head, "$%zu\r\n", n);
    c->open_at = 0;
    c->n++;
    pp_buf_put(b, head, (size_t)head_n);
    if (!b->failed) {
        memmove(b->p + at + head_n, b->p + at, n);
        memcpy(b->p + at, head, (size_t)head_n);
    }
    pp_buf_put(b, "\r\n", 2);
}

void pp_redis_call_keys_end(struct pp_redis_call *c)
{
    pp_assert(c->script && c->n_keys == 0 && c->n > 0, "only a script has keys, and they end once");
    c->n_keys = c->n;
}

/* --- packed integers --- */

void pp_redis_pack(struct pp_buf *b, const char *layout, const int64_t *values)
{
    for (const char *p = layout; *p; p++)
        if (*p == 'B')
            pp_buf_u8(b, (uint8_t)*values++);
        else if (*p == '4')
            pp_buf_u32(b, (uint32_t)*values++);
        else if (*p == '8')
            pp_buf_u64(b, (uint64_t)*values++);
}

bool pp_redis_unpack(struct pp_reader *r, const char *layout, int64_t *values)
{
    for (const char *p = layout; *p; p++)
        if (*p == 'B')
            *values++ = pp_read_u8(r);
        else if (*p == '4')
            *values++ = pp_read_u32(r);
        else if (*p == '8')
            *values++ = (int64_t)pp_read_u64(r);
    return !r->failed;
}

/* --- answers --- */

bool pp_redis_refused_with(const struct redisReply *reply, const char *word)
{
    return reply && reply->str && strncmp(reply->str, word, strlen(word)) == 0;
}

bool pp_redis_is_text(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS;
}

bool pp_redis_is(const struct redisReply *reply, const char *shape)
{
    size_t n = strlen(shape);
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements < n)
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct redisReply *e = reply->element[i];
        if (shape[i] == 't' ? !pp_redis_is_text(e)
                            : e->type != (shape[i] == 'i' ? REDIS_REPLY_INTEGER : REDIS_REPLY_ARRAY))
            return false;
    }
    return true;
}
