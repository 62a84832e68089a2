/* budget.c: divides the file descriptors of a process. */
#include "core/budget.h"

#include "base/check.h"

/* The reserve: 16 descriptors and 1/32 of the others, at most 1,024 in all. */
#define RESERVE_MIN 16
#define RESERVE_MAX 1024
/* With fewer than these a use makes no progress, or is no use for its callers. */
#define TRANSFERS_MIN PP_TIERS_MAX
#define POSTS_MIN     4
#define CALLERS_MIN   16
#define STREAMS_MIN   4

enum { TRANSFERS, KEPT, POSTS, PLACES, USES };

/* One use of descriptors; all members but `weight` count descriptors. */
struct use {
    uint32_t weight;
    uint64_t want, least, got;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Fills in the table of uses. Returns the sum of `least`. */
static uint64_t list_uses(const struct pp_budget_want *w, struct use uses[USES])
{
    uint64_t sum = 0;

    uses[TRANSFERS] = (struct use){.weight = 4,
                                   .want = (uint64_t)w->transfers * PP_BUDGET_PER_TRANSFER,
                                   .least = smaller(w->transfers, TRANSFERS_MIN) * PP_BUDGET_PER_TRANSFER};
    uses[KEPT] = (struct use){.weight = 1, .want = (uint64_t)w->transfers * w->threads};
    uses[POSTS] = (struct use){.weight = 1, .want = w->posts, .least = smaller(w->posts, POSTS_MIN)};
    uses[PLACES] = (struct use){.weight = 5,
                                .want = (uint64_t)w->callers + w->streams,
                                .least = smaller(w->callers, CALLERS_MIN) + smaller(w->streams, STREAMS_MIN)};
    for (int i = 0; i < USES; i++)
        sum += uses[i].got = uses[i].least;
    return sum;
}

uint32_t pp_budget_needed(const struct pp_budget_want *want)
{
    struct use uses[USES];
    return (uint32_t)smaller((uint64_t)want->files + want->tests + RESERVE_MIN + list_uses(want, uses),
                             UINT32_MAX);
}

/* Deals `rest` to the uses: as long as one of them wants no more than its share of the rest, it
 * gets all it wants. Then each gets its share. */
static void deal(struct use uses[USES], uint64_t rest)
{
    bool served[USES] = {false};

    for (bool again = true; again;) {
        uint64_t weights = 0;
        again = false;
        for (int i = 0; i < USES; i++)
            weights += served[i] ? 0 : uses[i].weight;
        for (int i = 0; i < USES && !again; i++) {
            if (served[i] || uses[i].want - uses[i].got > rest * uses[i].weight / weights)
                continue;
            rest -= uses[i].want - uses[i].got;
            uses[i].got = uses[i].want;
            served[i] = again = true;
        }
        for (int i = 0; i < USES && !again; i++)
            uses[i].got += served[i] ? 0 : rest * uses[i].weight / weights;
    }
}

/* Returns the limit of one kind of places: what leaves the other kind a quarter. */
static uint32_t limit_of_kind(uint64_t places, uint32_t want, uint32_t other)
{
    return (uint32_t)smaller(want, places - smaller(other, places / 4));
}

enum pp_err pp_budget_divide(const struct pp_budget_want *want, struct pp_budget *out)
{
    struct use uses[USES];
    uint64_t least = list_uses(want, uses), fixed = (uint64_t)want->files + want->tests, sum = fixed;

    pp_assert(want->threads > 0, "a process without a thread");
    if (want->descriptors < pp_budget_needed(want))
        return PP_EFULL;
    uint64_t rest = want->descriptors - fixed - RESERVE_MIN - least;
    uint64_t reserve = RESERVE_MIN + smaller(rest / 32, RESERVE_MAX - RESERVE_MIN);
    deal(uses, rest - (reserve - RESERVE_MIN));
    uint64_t places = uses[PLACES].got;
    *out = (struct pp_budget){.descriptors = want->descriptors,
                              .files = want->files,
                              .reserve = (uint32_t)reserve,
                              .transfers = (uint32_t)(uses[TRANSFERS].got / PP_BUDGET_PER_TRANSFER),
                              .kept = (uint32_t)uses[KEPT].got,
                              .posts = (uint32_t)uses[POSTS].got,
                              .tests = want->tests,
                              .callers = limit_of_kind(places, want->callers, want->streams),
                              .streams = limit_of_kind(places, want->streams, want->callers),
                              .places = (uint32_t)places};
    for (int i = 0; i < USES; i++)
        sum += uses[i].got;
    pp_assert(sum + reserve <= want->descriptors, "more descriptors were divided than there are");
    return PP_OK;
}

void pp_budget_clip_tiers(struct pp_tier *tiers, size_t n, uint32_t served, uint32_t transfers)
{
    uint64_t sum = 0;
    uint32_t count = 0;

    pp_assert(n <= PP_TIERS_MAX, "too many tiers");
    for (size_t i = 0; i < n; i++)
        if (served & (1u << i)) {
            sum += tiers[i].concurrency;
            count++;
        }
    pp_assert(transfers >= smaller(sum, count), "a tier would have no transfer");
    if (sum <= transfers)
        return;
    /* each tier has one transfer, and its share of the others */
    for (size_t i = 0; i < n; i++)
        if (served & (1u << i))
            tiers[i].concurrency =
                1 + (uint32_t)((uint64_t)(tiers[i].concurrency - 1) * (transfers - count) / (sum - count));
}

uint32_t pp_budget_kept_by_loop(const struct pp_budget *budget, uint32_t threads)
{
    pp_assert(threads > 0, "a process without a thread");
    uint32_t all = budget->transfers + budget->kept, each = all / threads;

    if (threads > 1 && each > budget->kept / (threads - 1))
        each = budget->kept / (threads - 1);
    return each > 0 ? each : 1;
}
