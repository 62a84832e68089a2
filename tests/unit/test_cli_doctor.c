/* Tests `photopool doctor` and the decisions of `photopool bench`: verdicts from numbers, and
 * doctor on a new folder, on one that it can't use, and with a Redis that is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "cli_run.h"
#include "cmd.h"
#include "doctor.h"
#include "test_loop.h"

/* --- descriptors --- */

static struct pp_budget_want want(uint32_t descriptors)
{
    return (struct pp_budget_want){.descriptors = descriptors,
                                   .files = 100,
                                   .transfers = 768,
                                   .threads = 1,
                                   .posts = 512,
                                   .tests = 8,
                                   .callers = 12000,
                                   .streams = 50000};
}

static void descriptors_that_are_too_few_fail(void **state)
{
    struct pp_finding f = {.check = ""};
    struct pp_budget_want w = want(64);
    (void)state;
    pp_doctor_descriptors(&f, &w);
    assert_int_equal(f.state, PP_DOCTOR_FAIL);
    assert_non_null(strstr(f.found, "64 descriptors; photopool needs at least "));
    assert_non_null(strstr(f.remedy, "ulimit -n "));
    assert_non_null(strstr(f.remedy, "LimitNOFILE="));
}

static void transfers_that_are_clipped_are_a_warning(void **state)
{
    struct pp_finding f = {.check = ""};
    struct pp_budget_want w = want(1024);
    struct pp_budget b;
    char text[80];
    (void)state;
    assert_int_equal(pp_budget_divide(&w, &b), PP_OK);
    assert_true(b.transfers < w.transfers);
    pp_doctor_descriptors(&f, &w);
    assert_int_equal(f.state, PP_DOCTOR_WARN);
    (void)snprintf(text, sizeof text, "%u transfers at once, and not 768", b.transfers);
    assert_non_null(strstr(f.found, text));
}

/* The number in the remedy must really be enough, and half of it not. */
static void the_remedy_names_a_limit_that_is_enough(void **state)
{
    struct pp_finding f = {.check = ""};
    struct pp_budget_want w = want(1024);
    (void)state;
    pp_doctor_descriptors(&f, &w);
    unsigned long n = strtoul(strstr(f.remedy, "LimitNOFILE=") + strlen("LimitNOFILE="), NULL, 10);
    for (unsigned half = 0; half < 2; half++) {
        struct pp_budget_want other = want((uint32_t)n >> half);
        struct pp_budget b;
        assert_int_equal(pp_budget_divide(&other, &b), PP_OK);
        assert_int_equal(b.streams >= w.streams && b.callers >= w.callers && b.transfers >= w.transfers,
                         !half);
    }
    w = want((uint32_t)n);
    pp_doctor_descriptors(&f, &w);
    assert_int_equal(f.state, PP_DOCTOR_OK);
    assert_string_equal(f.remedy, "");
}

/* --- the clock --- */

static void a_clock_is_judged_by_the_lease(void **state)
{
    static const struct {
        int64_t ahead_ms, error_ms;
        enum pp_doctor_state state;
        const char *found;
    } cases[] = {
        {0, 0, PP_DOCTOR_OK, "agrees with that of Redis"},
        {1000, 0, PP_DOCTOR_OK, "agrees"},
        {1001, 0, PP_DOCTOR_WARN, "1.0 s ahead of that of Redis"},
        {-3250, 0, PP_DOCTOR_WARN, "3.2 s behind that of Redis"},
        {15000, 0, PP_DOCTOR_WARN, "15.0 s ahead"},
        {15001, 0, PP_DOCTOR_FAIL, "15.0 s ahead"},
        {-86400000, 0, PP_DOCTOR_FAIL, "86400.0 s behind"},
        {16000, 1500, PP_DOCTOR_WARN, "16.0 s ahead"}, /* it may be 14.5 s only */
        {2000, 1000, PP_DOCTOR_OK, "agrees"},
        {500, 4000, PP_DOCTOR_OK, "agrees"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_finding f = {.check = ""};
        pp_doctor_clock(&f, "Redis", cases[i].ahead_ms, cases[i].error_ms, 30000);
        assert_int_equal(f.state, cases[i].state);
        assert_non_null(strstr(f.found, cases[i].found));
        assert_int_equal(f.remedy[0] == '\0', f.state == PP_DOCTOR_OK);
    }
}

/* --- the address policy --- */

static void networks_of_this_machine_are_a_warning(void **state)
{
    static const struct {
        const char *network, *found;
        enum pp_doctor_state state;
    } cases[] = {
        {NULL, "public addresses; ports 80, 1024-65535", PP_DOCTOR_OK},
        {"198.18.0.0/15", "public addresses and 198.18.0.0/15; ports", PP_DOCTOR_OK},
        {"127.0.0.1", "127.0.0.1 (loopback)", PP_DOCTOR_WARN},
        {"0.0.0.0/0", "0.0.0.0/0 (loopback)", PP_DOCTOR_WARN},
        {"10.1.0.0/16", "10.1.0.0/16 (private)", PP_DOCTOR_WARN},
        {"192.0.0.0/8", "192.0.0.0/8 (private)", PP_DOCTOR_WARN},
        {"169.254.169.254", "(link-local: metadata", PP_DOCTOR_WARN},
        {"fd00::/8", "fd00::/8 (private)", PP_DOCTOR_WARN},
        {"::1", "::1 (loopback)", PP_DOCTOR_WARN},
    };
    static const struct pp_config_port_range ranges[] = {{80, 80}, {1024, 65535}};
    const struct pp_config_ports ports = {ranges, 2};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_finding f = {.check = ""};
        const struct pp_config_strings networks = {&cases[i].network, cases[i].network ? 1 : 0};
        pp_doctor_policy(&f, "fetch", &networks, &ports);
        if (f.state != cases[i].state || !strstr(f.found, cases[i].found))
            fail_msg("%s: %d %s", cases[i].network, f.state, f.found);
        assert_int_equal(f.remedy[0] == '\0', f.state == PP_DOCTOR_OK);
    }
}

/* --- the decisions of bench --- */

static void the_limit_follows_from_the_figures(void **state)
{
    const struct pp_bench_figures idle = {.seconds = 2, .photos = 200, .fsyncs_per_second = 1000};
    struct pp_bench_figures f = idle;
    (void)state;
    assert_non_null(strstr(pp_bench_limit(&f), "one thread"));
    f.busy = 0.9;
    assert_non_null(strstr(pp_bench_limit(&f), "the processors"));
    f.busy = 0.5;
    f.photos = 1000;
    assert_non_null(strstr(pp_bench_limit(&f), "the disk"));
    f.failed = 11;
    assert_non_null(strstr(pp_bench_limit(&f), "failed"));
    f = (struct pp_bench_figures){0};
    assert_non_null(pp_bench_limit(&f));
}

static void percentiles_and_sums(void **state)
{
    static const int64_t ms[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 100};
    static const char metrics[] = "# TYPE a_total counter\n"
                                  "a_total{outcome=\"stored\",tier=\"1\"} 12\n"
                                  "a_total{outcome=\"failed\",tier=\"1\"} 5\n"
                                  "a_total{outcome=\"stored\",tier=\"5\"} 30\n"
                                  "b_seconds 0.25";
    (void)state;
    assert_int_equal(pp_bench_percentile(ms, 10, 50), 6);
    assert_int_equal(pp_bench_percentile(ms, 10, 99), 100);
    assert_int_equal(pp_bench_percentile(ms, 1, 99), 1);
    assert_int_equal(pp_bench_percentile(ms, 0, 50), 0);
    assert_true(pp_bench_sum(metrics, "a_total{outcome=\"stored\"") == 42);
    assert_true(pp_bench_sum(metrics, "b_seconds ") == 0.25);
    assert_true(pp_bench_sum(metrics, "c_total") == 0);
}

/* --- the command --- */

struct fixture {
    char dir[64], data[128];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    (void)snprintf(f->dir, sizeof f->dir, "/tmp/photopool-doctor-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->data, sizeof f->data, "%s/data", f->dir);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    (void)rmdir(f->data);
    assert_int_equal(rmdir(f->dir), 0); /* doctor leaves nothing behind */
    free(f);
    return 0;
}

/* Runs doctor with a data directory and one more parameter, and returns its findings by line. */
static int run(const struct fixture *f, const char *set, struct cli_run *r)
{
    cli_run(r, pp_cmd_doctor, NULL, 0,
            (const char *[]){"doctor", "--config", "", "--data", f->data, "--set", "http.listen=127.0.0.1:0",
                             "--set", "fetch.dns_timeout=100ms", "--set", "blobs.min_free=0", "--set", set,
                             NULL});
    return r->code;
}

/* Returns the state of the first finding of a check, or "none". Sets *remedy. */
static const char *state_of(const struct cli_run *r, const char *check, char state[16], bool *remedy)
{
    (void)snprintf(state, 16, "none");
    *remedy = false;
    for (const char *line = r->out; *line && strcmp(state, "none") == 0; line = strchr(line, '\n') + 1) {
        json_t *o = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        assert_non_null(o);
        if (strcmp(json_string_value(json_object_get(o, "check")), check) == 0) {
            (void)snprintf(state, 16, "%s", json_string_value(json_object_get(o, "state")));
            *remedy = json_object_get(o, "remedy") != NULL;
        }
        json_decref(o);
    }
    return state;
}

static void a_new_folder_is_well(void **state)
{
    static const char *const ok[] = {"configuration", "API keys",       "data directory",
                                     "http.listen",   "disk space",     "store",
                                     "photos",        "address policy", "coordinator"};
    const struct fixture *f = *state;
    struct cli_run r;
    char text[16];
    bool remedy;
    assert_int_equal(run(f, "clients.rpm=600", &r), 0);
    for (size_t i = 0; i < sizeof ok / sizeof *ok; i++) {
        assert_string_equal(state_of(&r, ok[i], text, &remedy), "ok");
        assert_false(remedy);
    }
    assert_string_equal(state_of(&r, "sink amqp", text, &remedy), "skipped");
    assert_string_equal(state_of(&r, "webhooks", text, &remedy), "skipped");
    assert_int_equal(access(f->data, F_OK), -1);
    cli_run_fini(&r);
}

static void a_closed_redis_fails_with_a_remedy(void **state)
{
    const struct fixture *f = *state;
    char set[80], text[16];
    struct cli_run r;
    bool remedy;
    (void)snprintf(set, sizeof set, "coordinator.url=redis://127.0.0.1:%d", pp_test_port());
    assert_int_equal(run(f, set, &r), 1);
    assert_string_equal(state_of(&r, "coordinator", text, &remedy), "fail");
    assert_true(remedy);
    assert_non_null(strstr(r.out, "onnection refused"));
    assert_string_equal(state_of(&r, "configuration", text, &remedy), "fail"); /* sqlite: with redis: */
    cli_run_fini(&r);
}

static void files_that_are_no_databases_and_brokers_that_are_not_there_fail(void **state)
{
    const struct fixture *f = *state;
    char set[160], path[128], text[16];
    struct cli_run r;
    bool remedy;
    (void)snprintf(path, sizeof path, "%s/no.db", f->dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        assert_true(fputs("this is no database\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(set, sizeof set, "store.url=sqlite:%s", path);
    assert_int_equal(run(f, set, &r), 1);
    assert_string_equal(state_of(&r, "store", text, &remedy), "fail");
    assert_true(remedy);
    cli_run_fini(&r);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(set, sizeof set, "amqp.url=amqp://127.0.0.1:%d", pp_test_port());
    assert_int_equal(run(f, set, &r), 1);
    assert_string_equal(state_of(&r, "sink amqp", text, &remedy), "fail");
    assert_true(remedy);
    cli_run_fini(&r);
}

/* A file where the folder should be: not even root can use it. */
static void a_data_directory_that_is_a_file_fails(void **state)
{
    const struct fixture *f = *state;
    struct cli_run r;
    char text[16];
    bool remedy;
    FILE *file = fopen(f->data, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(run(f, "clients.rpm=600", &r), 1);
    assert_string_equal(state_of(&r, "data directory", text, &remedy), "fail");
    assert_true(remedy);
    cli_run_fini(&r);
    assert_int_equal(unlink(f->data), 0);
}

static void others_may_not_write_in_the_data_directory(void **state)
{
    const struct fixture *f = *state;
    char path[160], text[16];
    struct cli_run r;
    bool remedy;
    assert_int_equal(mkdir(f->data, 0700), 0);
    assert_int_equal(run(f, "clients.rpm=600", &r), 0);
    assert_string_equal(state_of(&r, "data directory", text, &remedy), "ok");
    cli_run_fini(&r);
    (void)snprintf(path, sizeof path, "%s/theirs", f->data);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(f->data, 0777), 0);
    assert_int_equal(run(f, "clients.rpm=600", &r), 1);
    assert_string_equal(state_of(&r, "data directory", text, &remedy), "fail");
    cli_run_fini(&r);
    assert_int_equal(unlink(path), 0);
}

/* The table shows each word of the longest texts, in lines that fit. */
static void the_table_fits_the_window(void **state)
{
    const struct fixture *f = *state;
    struct cli_run r;
    cli_run(&r, pp_cmd_doctor, NULL, 80,
            (const char *[]){"doctor", "--config", "", "--data", f->data, "--set", "fetch.dns_timeout=100ms",
                             "--set", "http.listen=127.0.0.1:0", "--set",
                             "fetch.allow_networks=[127.0.0.0/8]", NULL});
    assert_non_null(strstr(r.out, "127.0.0.0/8 (loopback)"));
    assert_non_null(strstr(r.out, "-> "));
    assert_non_null(strstr(r.out, " fail, "));
    cli_run_fini(&r);
}

static void wrong_usage_is_2(void **state)
{
    static const char *const args[][4] = {{"doctor", "--bogus"},
                                          {"doctor", "more"},
                                          {"doctor", "--server=http://h"},
                                          {"doctor", "--config", "/nonexistent.yaml"},
                                          {"doctor", "--set", "fetch.bogus=1"}};
    (void)state;
    for (size_t i = 0; i < sizeof args / sizeof *args; i++) {
        struct cli_run r;
        cli_run(&r, pp_cmd_doctor, NULL, 0,
                (const char *[]){args[i][0], args[i][1], args[i][2], args[i][3], NULL});
        assert_int_equal(r.code, 2);
        assert_string_equal(r.out, "");
        assert_non_null(strstr(r.err, "photopool: "));
        cli_run_fini(&r);
    }
}

int main(void)
{
#define WITH_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_that_are_too_few_fail),
        cmocka_unit_test(transfers_that_are_clipped_are_a_warning),
        cmocka_unit_test(the_remedy_names_a_limit_that_is_enough),
        cmocka_unit_test(a_clock_is_judged_by_the_lease),
        cmocka_unit_test(networks_of_this_machine_are_a_warning),
        cmocka_unit_test(the_limit_follows_from_the_figures),
        cmocka_unit_test(percentiles_and_sums),
        WITH_A_FOLDER(a_new_folder_is_well),
        WITH_A_FOLDER(a_closed_redis_fails_with_a_remedy),
        WITH_A_FOLDER(files_that_are_no_databases_and_brokers_that_are_not_there_fail),
        WITH_A_FOLDER(a_data_directory_that_is_a_file_fails),
        WITH_A_FOLDER(others_may_not_write_in_the_data_directory),
        WITH_A_FOLDER(the_table_fits_the_window),
        cmocka_unit_test(wrong_usage_is_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
