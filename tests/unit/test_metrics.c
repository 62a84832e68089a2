/* Tests /metrics: every family of metrics appears once, in text format 0.0.4, and each number is in
 * its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline/common/metrics.h"

static const struct pp_tier tiers[] = {{1000, 1}, {5000, 1}, {30000, 1}, {500, 1}};

struct page {
    struct pp_metrics *m;
    struct pp_buf text;
};

static void page_open(struct page *p)
{
    p->m = calloc(1, sizeof(*p->m));
    pp_buf_init(&p->text, 1 << 20);
}

static void write_page(struct page *p, uint32_t n_tiers)
{
    pp_buf_reset(&p->text);
    pp_metrics_write(p->m, tiers, n_tiers, &p->text);
    assert_false(p->text.failed);
}

static void page_close(struct page *p)
{
    pp_buf_fini(&p->text);
    free(p->m);
}

static void says(const struct page *p, const char *line)
{
    const char *at = strstr(p->text.p, line);

    if (!at || (at > p->text.p && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("missing: %s", line);
}

static bool is_name(const char *s, size_t n)
{
    return n > 10 && strncmp(s, "photopool_", 10) == 0 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyz_0123456789") >= n;
}

/* Checks that each line is HELP, TYPE, or a sample of the family announced last. */
static void check_format(struct page *p)
{
    char family[100] = "", seen[8192] = "";

    assert_int_equal(p->text.p[p->text.n - 1], '\n');
    char *rest_of_page;
    for (char *line = strtok_r(p->text.p, "\n", &rest_of_page); line;
         line = strtok_r(NULL, "\n", &rest_of_page)) {
        char name[100], rest[200], *end;
        if (sscanf(line, "# HELP %99s %199[^\n]", name, rest) == 2) {
            char mark[110];
            assert_true(is_name(name, strlen(name)));
            assert_true(rest[strlen(rest) - 1] == '.');
            (void)snprintf(mark, sizeof(mark), " %s ", name);
            assert_null(strstr(seen, mark)); /* The page has each family of metrics once. */
            strcat(seen, mark);
            strcpy(family, name);
        } else if (sscanf(line, "# TYPE %99s %199[^\n]", name, rest) == 2) {
            assert_string_equal(name, family);
            assert_true(!strcmp(rest, "counter") || !strcmp(rest, "gauge") || !strcmp(rest, "histogram"));
            if (strcmp(rest, "counter") == 0)
                assert_string_equal(family + strlen(family) - 6, "_total");
        } else {
            assert_memory_equal(line, family, strlen(family));
            (void)strtod(strrchr(line, ' ') + 1, &end);
            assert_int_equal(*end, '\0');
        }
    }
}

static void every_page_is_well_formed(void **state)
{
    struct page p;

    (void)state;
    page_open(&p);
    for (uint32_t n = 1; n <= 4; n++) {
        write_page(&p, n);
        check_format(&p);
    }
    for (int o = PP_OUTCOME_STORED; o < PP_OUTCOME_COUNT; o++)
        for (unsigned code = 0; code < 700; code++)
            pp_metrics_photo(p.m, (enum pp_outcome_kind)o, (uint16_t)code, code % 4);
    write_page(&p, 4);
    check_format(&p);
    page_close(&p);
}

static void outcomes_are_counted_by_code_and_tier(void **state)
{
    struct page p;

    (void)state;
    page_open(&p);
    pp_metrics_photo(p.m, PP_OUTCOME_STORED, 0, 1);
    pp_metrics_photo(p.m, PP_OUTCOME_STORED, 0, 1);
    pp_metrics_photo(p.m, PP_OUTCOME_UNCHANGED, 0, PP_METRIC_NO_TIER);
    pp_metrics_photo(p.m, PP_OUTCOME_FAILED, 404, 0);
    pp_metrics_photo(p.m, PP_OUTCOME_FAILED, 599, 0);
    pp_metrics_photo(p.m, PP_OUTCOME_FAILED, PP_CODE_BODY_TIMEOUT, 2);
    pp_metrics_photo(p.m, PP_OUTCOME_FAILED, 600, 3); /* a code that photopool does not have */
    pp_metrics_photo(p.m, PP_OUTCOME_FAILED, PP_CODE_COUNT, 3);
    write_page(&p, 4);
    says(&p, "photopool_photos_total{outcome=\"stored\",code=\"\",tier=\"5\"} 2");
    says(&p, "photopool_photos_total{outcome=\"unchanged\",code=\"\",tier=\"none\"} 1");
    says(&p, "photopool_photos_total{outcome=\"failed\",code=\"http_404\",tier=\"1\"} 1");
    says(&p, "photopool_photos_total{outcome=\"failed\",code=\"http_599\",tier=\"1\"} 1");
    says(&p, "photopool_photos_total{outcome=\"failed\",code=\"body_timeout\",tier=\"30\"} 1");
    says(&p, "photopool_photos_total{outcome=\"failed\",code=\"internal\",tier=\"0.5\"} 2");
    page_close(&p);
}

static void results_fall_into_their_buckets(void **state)
{
    static const int64_t ms[] = {-5, 1000, 1001, 86400001};
    struct page p;

    (void)state;
    page_open(&p);
    for (size_t i = 0; i < sizeof(ms) / sizeof(*ms); i++)
        pp_metrics_result(p.m, ms[i]);
    write_page(&p, 1);
    says(&p, "photopool_accept_to_result_seconds_bucket{le=\"1\"} 2");
    says(&p, "photopool_accept_to_result_seconds_bucket{le=\"5\"} 3");
    says(&p, "photopool_accept_to_result_seconds_bucket{le=\"86400\"} 3");
    says(&p, "photopool_accept_to_result_seconds_bucket{le=\"+Inf\"} 4");
    says(&p, "photopool_accept_to_result_seconds_sum 86402.002");
    says(&p, "photopool_accept_to_result_seconds_count 4");
    page_close(&p);
}

static void rejected_items_are_counted_by_code(void **state)
{
    struct page p;

    (void)state;
    page_open(&p);
    p.m->items_rejected[pp_metrics_rejected_code("bad_id")] += 2;
    p.m->items_rejected[pp_metrics_rejected_code("no such code")]++;
    p.m->webhook_tries[PP_WEBHOOK_DEAD] = 3;
    write_page(&p, 1);
    says(&p, "photopool_items_rejected_total{code=\"bad_id\"} 2");
    says(&p, "photopool_items_rejected_total{code=\"bad_json\"} 1");
    says(&p, "photopool_webhook_attempts_total{outcome=\"dead\"} 3");
    page_close(&p);
}

static void durations_fall_into_their_buckets(void **state)
{
    static const int64_t ms[] = {0, 50, 51, 999, 1000, 1001, 30000, 30001, 999999};
    struct page p;

    (void)state;
    page_open(&p);
    for (size_t i = 0; i < sizeof(ms) / sizeof(*ms); i++)
        pp_metrics_transfer(p.m, 0, ms[i], 10);
    write_page(&p, 2);
    says(&p, "photopool_fetch_seconds_bucket{tier=\"1\",le=\"0.05\"} 2");
    says(&p, "photopool_fetch_seconds_bucket{tier=\"1\",le=\"0.1\"} 3");
    says(&p, "photopool_fetch_seconds_bucket{tier=\"1\",le=\"1\"} 5");
    says(&p, "photopool_fetch_seconds_bucket{tier=\"1\",le=\"2.5\"} 6");
    says(&p, "photopool_fetch_seconds_bucket{tier=\"1\",le=\"30\"} 7");
    says(&p, "photopool_fetch_seconds_bucket{tier=\"1\",le=\"+Inf\"} 9");
    says(&p, "photopool_fetch_seconds_count{tier=\"1\"} 9");
    says(&p, "photopool_fetch_seconds_sum{tier=\"1\"} 1063.101");
    says(&p, "photopool_fetch_seconds_count{tier=\"5\"} 0");
    says(&p, "photopool_fetch_bytes_total 90");
    page_close(&p);
}

static void every_number_has_its_line(void **state)
{
    struct page p;
    uint64_t value = 1000;
    char line[200];

    (void)state;
    page_open(&p);
#define X(field, name, type, help) p.m->field = value += 1234;
    PP_METRIC_TABLE(X)
#undef X
    p.m->batches_rejected = 7;
    p.m->in_flight[1] = 11;
    p.m->open_tasks[0] = 12;
    p.m->breakers[0] = 40;
    p.m->breakers[1] = 3;
    p.m->breakers[2] = 2;
    p.m->waiting_photos[PP_REASON_HOST] = 17;
    p.m->leads = true;
    pp_metrics_loop_lag(p.m, 0, 250);
    pp_metrics_loop_lag(p.m, 2, 30);
    /* There is no loop with this number, so /metrics does not show it. */
    pp_metrics_loop_lag(p.m, PP_METRIC_LOOPS, 1);
    write_page(&p, 2);
#define X(field, name, type, help)                                                                     \
    if ((type) == PP_LEADER_GAUGE_MS)                                                                  \
        (void)snprintf(line, sizeof(line), "photopool_%s %.3f", name, (double)p.m->field / 1000);      \
    else                                                                                               \
        (void)snprintf(line, sizeof(line), "photopool_%s %llu", name, (unsigned long long)p.m->field); \
    says(&p, line);
    PP_METRIC_TABLE(X)
#undef X
    says(&p, "photopool_batches_total{outcome=\"rejected\"} 7");
    says(&p, "photopool_in_flight{tier=\"5\"} 11");
    says(&p, "photopool_open_tasks{tier=\"1\"} 12");
    says(&p, "photopool_breakers{state=\"closed\"} 40");
    says(&p, "photopool_breakers{state=\"open\"} 3");
    says(&p, "photopool_breakers{state=\"half_open\"} 2");
    says(&p, "photopool_waiting_photos{reason=\"queued\"} 0");
    says(&p, "photopool_waiting_photos{reason=\"host\"} 17");
    says(&p, "photopool_loop_lag_seconds{loop=\"main\"} 0.250");
    says(&p, "photopool_loop_lag_seconds{loop=\"fetch-1\"} 0.000");
    says(&p, "photopool_loop_lag_seconds{loop=\"fetch-2\"} 0.030");
    assert_null(strstr(p.text.p, "fetch-3"));
    page_close(&p);
}

static void lags_of_the_main_loop(void **state)
{
    struct page p;

    (void)state;
    page_open(&p);
    pp_metrics_write_lags(
        &(struct pp_loop_lags){.counts = {5, [4] = 2, [PP_LAG_BOUND_COUNT] = 1}, .sum_ms = 2030}, &p.text);
    says(&p, "photopool_main_loop_lag_seconds_bucket{le=\"0.01\"} 5");
    says(&p, "photopool_main_loop_lag_seconds_bucket{le=\"0.02\"} 7");
    says(&p, "photopool_main_loop_lag_seconds_bucket{le=\"1\"} 7");
    says(&p, "photopool_main_loop_lag_seconds_bucket{le=\"+Inf\"} 8");
    says(&p, "photopool_main_loop_lag_seconds_sum 2.030");
    says(&p, "photopool_main_loop_lag_seconds_count 8");
    page_close(&p);
}

static void gauges_of_the_leader_are_absent_elsewhere(void **state)
{
    static const char *const names[] = {"open_tasks",
                                        "breakers",
                                        "waiting_photos",
                                        "ingest_queue_length",
                                        "ingest_queue_age_seconds",
                                        "outbox_length",
                                        "outbox_age_seconds"};
    char type[80];

    (void)state;
    for (int leads = 0; leads < 2; leads++) {
        struct page p;
        page_open(&p);
        p.m->leads = leads;
        write_page(&p, 2);
        pp_metrics_write_sinks(p.m, 0, &p.text);
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
            (void)snprintf(type, sizeof(type), "# TYPE photopool_%s gauge\n", names[i]);
            assert_int_equal(strstr(p.text.p, type) != NULL, leads);
        }
        page_close(&p);
    }
}

static bool two_ops(void *port, size_t i, const char **op, uint64_t *n)
{
    *op = i == 0 ? "claim" : "settle";
    *n = *(uint64_t *)port + i;
    return i < 2;
}

static void ports_count_for_themselves(void **state)
{
    struct page p;
    uint64_t base = UINT64_MAX - 1;

    (void)state;
    page_open(&p);
    pp_metrics_write_ops(&p.text, "store_round_trips_total", "Round trips.", two_ops, &base);
    assert_string_equal(p.text.p, "# HELP photopool_store_round_trips_total Round trips.\n"
                                  "# TYPE photopool_store_round_trips_total counter\n"
                                  "photopool_store_round_trips_total{op=\"claim\"} 18446744073709551614\n"
                                  "photopool_store_round_trips_total{op=\"settle\"} 18446744073709551615\n");
    page_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_page_is_well_formed),
        cmocka_unit_test(outcomes_are_counted_by_code_and_tier),
        cmocka_unit_test(durations_fall_into_their_buckets),
        cmocka_unit_test(results_fall_into_their_buckets),
        cmocka_unit_test(rejected_items_are_counted_by_code),
        cmocka_unit_test(every_number_has_its_line),
        cmocka_unit_test(lags_of_the_main_loop),
        cmocka_unit_test(gauges_of_the_leader_are_absent_elsewhere),
        cmocka_unit_test(ports_count_for_themselves),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
