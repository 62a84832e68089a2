/* fake_fetcher.c: a fetcher that holds every exchange until the test ends it. */
#include "fake_fetcher.h"

#include <assert.h>
#include <string.h>

static void forget(struct fake_fetcher *f, size_t i)
{
    assert(i < f->n);
    memmove(&f->held[i], &f->held[i + 1], (f->n - i - 1) * sizeof(f->held[0]));
    f->n--;
}

static enum pp_err start(struct pp_fetcher *fetcher, struct pp_exchange *x)
{
    struct fake_fetcher *f = (struct fake_fetcher *)fetcher;

    assert(f->n < FAKE_EXCHANGES);
    f->held[f->n++] = x;
    return PP_OK;
}

static void abort_exchange(struct pp_fetcher *fetcher, struct pp_exchange *x)
{
    struct fake_fetcher *f = (struct fake_fetcher *)fetcher;
    size_t i = 0;

    while (f->held[i] != x)
        i++;
    forget(f, i);
}

static void close_fetcher(struct pp_fetcher *fetcher)
{
    assert(((struct fake_fetcher *)fetcher)->n == 0);
}

void fake_fetcher_init(struct fake_fetcher *f)
{
    static const struct pp_fetcher_ops ops = {
        .start = start, .abort = abort_exchange, .close = close_fetcher};
    *f = (struct fake_fetcher){.base = {.ops = &ops}};
}

enum pp_err fake_fetcher_open(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                              struct pp_resolver **resolver)
{
    (void)loop;
    *fetcher = &((struct fake_fetcher *)data)->base;
    *resolver = NULL;
    return PP_OK;
}

void fake_fetcher_end(struct fake_fetcher *f, size_t i, int status)
{
    struct pp_exchange *x = f->held[i];

    forget(f, i);
    x->status = status;
    (void)x->events->head(x);
    x->events->done(x);
}
