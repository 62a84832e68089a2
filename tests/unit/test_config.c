/* Tests the configuration: types, sources, and errors. */
#include "base/text.h"
#include "base/units.h"
#include "config_load.h"

#define HEX_A "00000000000000000000000000000000000000000000000000000000000000aa"
#define HEX_B "00000000000000000000000000000000000000000000000000000000000000bb"

static void units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const struct pp_unit *units;
        int64_t value; /* expected value; -1: the parser must refuse the text */
    } cases[] = {
        {"0", pp_units_count, 0},
        {"250", pp_units_count, 250},
        {"10k", pp_units_count, 10000},
        {"10K", pp_units_count, 10000},
        {"1.5M", pp_units_count, 1500000},
        {"5G", pp_units_count, INT64_C(5000000000)},
        {"5m", pp_units_count, -1},
        {"1.0005k", pp_units_count, -1},
        {"-1", pp_units_count, -1},
        {"+1", pp_units_count, -1},
        {"", pp_units_count, -1},
        {"k", pp_units_count, -1},
        {".5k", pp_units_count, -1},
        {"1.", pp_units_count, -1},
        {"1..5k", pp_units_count, -1},
        {"1.2.3", pp_units_count, -1},
        {"0x10", pp_units_count, -1},
        {"9223372036854775807", pp_units_count, INT64_MAX},
        {"9223372036854775808", pp_units_count, -1},
        {"9223372036854775807k", pp_units_count, -1},
        {"0.00000000000000000001k", pp_units_count, -1},
        {"64KiB", pp_units_size, 65536},
        {"32 MiB", pp_units_size, 33554432},
        {"32  MiB", pp_units_size, -1},
        {"1GiB", pp_units_size, 1 << 30},
        {"1GB", pp_units_size, 1000000000},
        {"2kB", pp_units_size, 2000},
        {"12B", pp_units_size, 12},
        {"12", pp_units_size, 12},
        {"12M", pp_units_size, -1},
        {"12mib", pp_units_size, -1},
        {"250ms", pp_units_duration, 250},
        {"1.5s", pp_units_duration, 1500},
        {"2m", pp_units_duration, 120000},
        {"2h", pp_units_duration, 7200000},
        {"30d", pp_units_duration, INT64_C(2592000000)},
        {"0", pp_units_duration, 0},
        {"0.0", pp_units_duration, 0},
        {"5", pp_units_duration, -1},
        {"0.5ms", pp_units_duration, -1},
        {"1m30s", pp_units_duration, -1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t value = -1;
        enum pp_err e = pp_unit_parse(cases[i].text, cases[i].units, &value);
        if ((e == PP_OK) != (cases[i].value >= 0) || (e == PP_OK && value != cases[i].value))
            fail_msg("\"%s\": %d %lld", cases[i].text, e, (long long)value);
    }
}

static void units_are_read_back(void **state)
{
    (void)state;
    static const struct pp_unit *const tables[] = {pp_units_count, pp_units_size, pp_units_duration};
    struct pp_rng rng;
    pp_rng_seed(&rng, 7);
    for (int i = 0; i < 30000; i++) {
        const struct pp_unit *units = tables[i % 3];
        int64_t factor = units[pp_rng_below(&rng, 4)].factor, back,
                value = (int64_t)pp_rng_below(&rng, 5000) * factor;
        char text[40];
        pp_unit_format(value, units, text, sizeof text);
        assert_int_equal(pp_unit_parse(text, units, &back), PP_OK);
        assert_int_equal(back, value);
    }
    char text[40];
    pp_unit_format(32 << 20, pp_units_size, text, sizeof text);
    assert_string_equal(text, "32MiB");
    pp_unit_format(250, pp_units_duration, text, sizeof text);
    assert_string_equal(text, "250ms");
}

static void edit_distance(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        size_t d;
    } cases[] = {{"", "", 0},
                 {"a", "", 1},
                 {"", "abc", 3},
                 {"listen", "lisen", 1},
                 {"ab", "ba", 1},
                 {"listen", "lsiten", 1},
                 {"kitten", "sitting", 3},
                 {"ca", "abc", 3}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(pp_edit_distance(cases[i].a, cases[i].b), cases[i].d);
        assert_int_equal(pp_edit_distance(cases[i].b, cases[i].a), cases[i].d);
    }
    char longer[80];
    memset(longer, 'a', 79);
    longer[79] = '\0';
    assert_true(pp_edit_distance(longer, "a") == SIZE_MAX);
}

static void the_table_is_sound(void **state)
{
    (void)state;
    size_t n, n_sections, section = 0;
    const struct pp_param *p = pp_params(&n);
    const struct pp_section *s = pp_sections(&n_sections);
    for (size_t i = 0; i < n; i++) {
        char env[96], other[96];
        const char *dot = strchr(p[i].name, '.');
        assert_non_null(dot);
        const char *second = strchr(dot + 1, '.');
        assert_true(!second || !strchr(second + 1, '.'));
        assert_true(strlen(p[i].name) < 60 && *p[i].help && strchr(p[i].help, '.'));
        size_t len = (size_t)(dot - p[i].name);
        if (strlen(s[section].name) != len || strncmp(s[section].name, p[i].name, len))
            section++;
        assert_true(section < n_sections);
        assert_int_equal(strlen(s[section].name), len);
        assert_memory_equal(s[section].name, p[i].name, len);
        pp_param_env(&p[i], env, sizeof env);
        for (size_t j = 0; j < i; j++) {
            pp_param_env(&p[j], other, sizeof other);
            assert_string_not_equal(env, other);
            assert_int_not_equal(p[i].offset, p[j].offset);
        }
    }
    assert_int_equal(section + 1, n_sections);
}

/* The defaults must be those that API.md section 6 promises. */
static void defaults(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } cases[] = {
        {"http.listen", "\"127.0.0.1:8080\""},
        {"http.max_connections_per_address", "256"},
        {"store.url", "\"sqlite:photopool-data/photopool.db\""},
        {"coordinator.url", "\"local:\""},
        {"blobs.url", "\"file:photopool-data/photos\""},
        {"fetch.tiers",
         "[{\"timeout\": \"1s\", \"concurrency\": 256}, {\"timeout\": \"5s\", \"concurrency\": 256}, "
         "{\"timeout\": \"30s\", \"concurrency\": 256}]"},
        {"fetch.allow_networks", "[]"},
        {"fetch.allow_ports", "[80, 443]"},
        {"fetch.resolve", "[]"},
        {"fetch.max_bytes", "\"32MiB\""},
        {"fetch.max_pixels", "100000000"},
        {"fetch.max_redirects", "5"},
        {"fetch.user_agent", "\"photopool/" PP_VERSION "\""},
        {"clients.rpm", "600"},
        {"clients.concurrency", "16"},
        {"worker.tiers", "\"all\""},
        {"worker.threads", "1"},
        {"worker.lease", "\"30s\""},
        {"worker.drain", "\"30s\""},
        {"ingest.high_water", "5000000"},
        {"ingest.journal", "true"},
        {"retry.attempts", "4"},
        {"retry.delays", "[\"1s\", \"10s\", \"1m\"]"},
        {"router.interval", "\"10s\""},
        {"router.min_samples", "5"},
        {"router.half_life", "\"10m\""},
        {"router.margin", "1.2"},
        {"events.retention", "\"1d\""},
        {"events.max_bytes", "\"1GiB\""},
        {"events.max_subscribers", "50000"},
        {"auth.keys", "[]"},
        {"log.level", "\"info\""},
        {"log.format", "\"text\""},
    };
    struct pp_config *cfg = must_load(NULL, NULL, NULL);
    char buf[512];
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_string_equal(value_of(cfg, cases[i].name, buf, sizeof buf), cases[i].value);
        assert_int_equal(origin(cfg, cases[i].name)->source, PP_SOURCE_DEFAULT);
    }
    assert_string_equal(cfg->file, "");
    assert_string_equal(cfg->data_dir, "photopool-data");
    pp_config_free(cfg);

    struct pp_config_error err;
    struct pp_config_sources src = {.file = "", .data_dir = "/srv/VERSION DIR"};
    assert_int_equal(pp_config_load(&cfg, &src, &err), PP_OK);
    assert_string_equal(cfg->store.url, "sqlite:/srv/VERSION DIR/photopool.db");
    pp_config_free(cfg);
}

static void typed_fields(void **state)
{
    (void)state;
    struct pp_config *cfg =
        must_load("http: {listen: '[::1]:0', max_body: 1MiB, metrics_public: false}\n"
                  "clients: {rpm: null}\n"
                  "worker: {tiers: [5s, 1s], id: host-1}\n"
                  "fetch:\n"
                  "  tiers:\n"
                  "    - timeout: 1s\n"
                  "    - {timeout: 5s, concurrency: 1k}\n"
                  "  allow_networks: [10.0.0.0/8, 'FD00::/8', 127.0.0.1]\n"
                  "  allow_ports: [80, 1024-65535]\n"
                  "  resolve: ['Shop.Example:80:127.0.0.1', 'b.example:443:[::1]', 'c.example:1:::2']\n"
                  "retry.delays: [250ms, 0]\n"
                  "router.margin: 2.5\n"
                  "blobs: {fsync: off}\n"
                  "log: {level: debug, format: json}\n"
                  "auth:\n"
                  "  keys:\n"
                  "    - {name: shop, sha256: '" HEX_A "', scopes: [read, submit], client: '42'}\n"
                  "    - {name: ops, sha256: '" HEX_B "', scopes: [admin]}\n",
                  NULL, NULL);
    assert_string_equal(cfg->http.listen.host, "::1");
    assert_int_equal(cfg->http.listen.port, 0);
    assert_int_equal(cfg->http.max_body_bytes, 1 << 20);
    assert_false(cfg->http.metrics_public);
    assert_int_equal(cfg->clients.rpm, PP_CONFIG_NONE);
    assert_int_equal(cfg->worker.tiers.n, 2);
    assert_int_equal(cfg->worker.tiers.item[0], 5000);
    assert_int_equal(cfg->fetch.tiers.n, 2);
    assert_int_equal(cfg->fetch.tiers.item[0].timeout_ms, 1000);
    assert_int_equal(cfg->fetch.tiers.item[0].concurrency, 256);
    assert_int_equal(cfg->fetch.tiers.item[1].concurrency, 1000);
    assert_string_equal(cfg->fetch.allow_networks.item[1], "fd00::/8");
    assert_string_equal(cfg->fetch.allow_networks.item[2], "127.0.0.1/32");
    assert_int_equal(cfg->fetch.allow_ports.item[1].first, 1024);
    assert_int_equal(cfg->fetch.allow_ports.item[1].last, 65535);
    assert_string_equal(cfg->fetch.resolve.item[0].host, "shop.example");
    assert_string_equal(cfg->fetch.resolve.item[0].address, "127.0.0.1");
    assert_string_equal(cfg->fetch.resolve.item[1].address, "::1");
    assert_int_equal(cfg->fetch.resolve.item[1].port, 443);
    assert_string_equal(cfg->fetch.resolve.item[2].address, "::2");
    assert_int_equal(cfg->retry.delays.item[0], 250);
    assert_int_equal(cfg->retry.delays.item[1], 0);
    assert_true(cfg->router.margin == 2.5);
    assert_int_equal(cfg->blobs.fsync, PP_FSYNC_OFF);
    assert_int_equal(cfg->log.level, PP_LOG_DEBUG);
    assert_int_equal(cfg->log.format, PP_CONFIG_LOG_JSON);
    assert_int_equal(cfg->auth.keys.n, 2);
    assert_string_equal(cfg->auth.keys.item[0].client, "42");
    assert_int_equal(cfg->auth.keys.item[0].scopes, PP_SCOPE_READ | PP_SCOPE_SUBMIT);
    assert_int_equal(cfg->auth.keys.item[0].sha256[31], 0xaa);
    assert_string_equal(cfg->auth.keys.item[1].client, "");
    pp_config_free(cfg);
}

static void the_strongest_source_wins(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *env, *set;
        int64_t value;
        enum pp_config_source source;
        const char *name;
        int line;
    } cases[] = {
        {NULL, NULL, NULL, 16, PP_SOURCE_DEFAULT, "", 0},
        {"\nclients:\n  concurrency: 2\n", NULL, NULL, 2, PP_SOURCE_FILE, "t.yaml", 3},
        {"clients.concurrency: 2\n", "PHOTOPOOL_CLIENTS_CONCURRENCY=3", NULL, 3, PP_SOURCE_ENV,
         "PHOTOPOOL_CLIENTS_CONCURRENCY", 0},
        {"clients.concurrency: 2\n", "PHOTOPOOL_CLIENTS_CONCURRENCY=3", "clients.concurrency=4", 4,
         PP_SOURCE_FLAG, "--set", 0},
        {"clients.concurrency: 2\n", "PHOTOPOOL_CLIENTS_CONCURRENCY=", NULL, 2, PP_SOURCE_FILE, "t.yaml", 1},
        {NULL, NULL, "clients.concurrency=4", 4, PP_SOURCE_FLAG, "--set", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg = must_load(cases[i].yaml, cases[i].env, cases[i].set);
        const struct pp_config_origin *o = origin(cfg, "clients.concurrency");
        assert_int_equal(cfg->clients.concurrency, cases[i].value);
        assert_int_equal(o->source, cases[i].source);
        assert_string_equal(o->name, cases[i].name);
        assert_int_equal(o->line, cases[i].line);
        pp_config_free(cfg);
    }
}

/* Each parameter can be set by its YAML key in both forms, by its environment variable and by its
 * flag. */
static void every_parameter_has_every_source(void **state)
{
    (void)state;
    static const char pair[] = "http.tls: {cert: a, key: b}\n"; /* neither goes without the other */
    size_t n;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++) {
        char env[96], text[4][600];
        const char *def = strstr(p[i].def, "DIR") ? "file:x" : p[i].def;
        if (strcmp(p[i].name, "store.url") == 0)
            def = "sqlite:x";
        const char *quoted = !*def ? "''" : strcmp(def, "local:") ? def : "'local:'";
        /* An empty variable counts as unset; a secret has at least 32 characters. */
        const char *literal = *def ? def : "0123456789abcdef0123456789abcdef";
        const char *dot = strchr(p[i].name, '.');
        pp_param_env(&p[i], env, sizeof env);
        snprintf(text[0], sizeof text[0], "%.*s:\n  %s: %s\n", (int)(dot - p[i].name), p[i].name, dot + 1,
                 quoted);
        snprintf(text[1], sizeof text[1], "%s: %s\n", p[i].name, quoted);
        snprintf(text[2], sizeof text[2], "%s=%s", env, literal);
        snprintf(text[3], sizeof text[3], "%s=%s", p[i].name, literal);
        for (int s = 0; s < 4; s++) {
            struct pp_config *cfg =
                must_load(s < 2 ? text[s] : pair, s == 2 ? text[2] : NULL, s == 3 ? text[3] : NULL);
            assert_int_equal(cfg->origin[i].source, s < 2    ? PP_SOURCE_FILE
                                                    : s == 2 ? PP_SOURCE_ENV
                                                             : PP_SOURCE_FLAG);
            pp_config_free(cfg);
        }
    }
}

static bool takes(const struct pp_param *p, double value)
{
    static const char *const suffix[PP_TYPE_N] = {[PP_TYPE_DURATION] = "ms"};
    char set[128];
    struct pp_config *cfg;
    struct pp_config_error err;
    snprintf(set, sizeof set, "%s=%.0f%s", p->name, value, suffix[p->type] ? suffix[p->type] : "");
    enum pp_err e = load(&cfg, NULL, NULL, set, &err);
    pp_config_free(cfg);
    return e == PP_OK;
}

static void ranges_are_closed(void **state)
{
    (void)state;
    size_t n;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++) {
        if (p[i].type != PP_TYPE_COUNT && p[i].type != PP_TYPE_COUNT_OR_NULL &&
            p[i].type != PP_TYPE_COUNT_OR_OFF && p[i].type != PP_TYPE_SIZE && p[i].type != PP_TYPE_DURATION)
            continue;
        assert_true(p[i].max > p[i].min && p[i].min >= 0);
        if (!takes(&p[i], p[i].min) || !takes(&p[i], p[i].max) || takes(&p[i], p[i].min - 1) ||
            takes(&p[i], p[i].max + 1))
            fail_msg("%s: range", p[i].name);
    }
}

/* The text of a flag, and the value that it must have; NULL: photopool refuses the text. */
static void values(void **state)
{
    (void)state;
    static const struct {
        const char *set, *value;
    } cases[] = {
        {"ingest.journal=off", "false"},
        {"hosts.concurrency=12", "12"},
        {"hosts.concurrency=off", "\"off\""},
        {"hosts.concurrency=null", NULL},
        {"ingest.journal=true", "true"},
        {"ingest.journal=maybe", NULL},
        {"ingest.journal=", NULL},
        {"http.listen=0.0.0.0:80", "\"0.0.0.0:80\""},
        {"http.listen=localhost:80", "\"127.0.0.1:80\""},
        {"http.listen=[0:0::1]:80", "\"[::1]:80\""},
        {"http.listen=::1:80", NULL},
        {"http.listen=:80", NULL},
        {"http.listen=80", NULL},
        {"http.listen=127.1:80", NULL},
        {"http.listen=[127.0.0.1]:80", NULL},
        {"http.listen=127.0.0.1:65536", NULL},
        {"http.listen=127.0.0.1:-1", NULL},
        {"http.listen=127.0.0.1:", NULL},
        {"http.listen=shop.example:80", NULL},
        {"clients.rpm=null", "null"},
        {"clients.rpm=~", "null"},
        {"clients.rpm=0", NULL},
        {"clients.rpm=1M", "1000000"},
        {"clients.rpm=1000001", NULL},
        {"clients.concurrency=null", NULL},
        {"router.margin=1", "1"},
        {"router.margin=0.9", NULL},
        {"router.margin=1.5x", NULL},
        {"router.margin=nan", NULL},
        {"router.margin=1e1", NULL},
        {"router.margin=-2", NULL},
        {"keep.threads=16", "16"},
        {"keep.threads=65", NULL},
        {"idempotency.retention=23h", NULL},
        {"blobs.fsync=off", "\"off\""},
        {"blobs.fsync=OFF", NULL},
        {"blobs.fsync=fil", NULL},
        {"fetch.allow_ports=80", "[80]"},
        {"fetch.allow_ports=80,8000-9000", "[80, \"8000-9000\"]"},
        {"fetch.allow_ports= [1-65535]", "[\"1-65535\"]"},
        {"fetch.allow_ports=0", NULL},
        {"fetch.allow_ports=9-8", NULL},
        {"fetch.allow_ports=1-2-3", NULL},
        {"fetch.allow_ports=65536", NULL},
        {"fetch.allow_ports=[]", NULL},
        {"fetch.allow_ports=all", NULL},
        {"fetch.allow_networks=10.0.0.1/8", NULL},
        {"fetch.allow_networks=10.0.0.0/33", NULL},
        {"fetch.allow_networks=10.0.0.0/", NULL},
        {"fetch.allow_networks=10.0/8", NULL},
        {"fetch.allow_networks=0.0.0.0/0", "[\"0.0.0.0/0\"]"},
        {"fetch.allow_networks=['::1']", "[\"::1/128\"]"},
        {"fetch.allow_networks=['fd00::1/8']", NULL},
        {"fetch.resolve=a.example:80:1.2.3.4", "[\"a.example:80:1.2.3.4\"]"},
        {"fetch.resolve=a.example:0:1.2.3.4", NULL},
        {"fetch.resolve=a.example:80", NULL},
        {"fetch.resolve=a.example:80:b.example", NULL},
        {"fetch.resolve=:80:1.2.3.4", NULL},
        {"worker.tiers=1s,30s", "[\"1s\", \"30s\"]"},
        {"worker.tiers=all", "\"all\""},
        {"worker.tiers=2s", NULL},
        {"worker.id=a b", NULL},
        {"worker.id=host-1.example_2", "\"host-1.example_2\""},
        {"retry.delays=1s", "[\"1s\"]"},
        {"retry.delays=", NULL},
        {"retry.delays=1s,x", NULL},
        {"fetch.user_agent=a # b: 'c' \"d\"", "\"a # b: 'c' \\\"d\\\"\""},
        {"fetch.user_agent=", NULL},
        {"fetch.user_agent=a\nb", NULL},
        {"fetch.user_agent=\xff\xfe", NULL},
        {"fetch.ca_file=null", "\"\""},
        {"store.url=sqlite:", NULL},
        {"store.url=postgres://x", NULL},
        {"coordinator.url=local:x", NULL},
        {"coordinator.url=redis://h:1", "\"redis://h:1\""},
        {"fetch.tiers={timeout: 2s}", "[{\"timeout\": \"2s\", \"concurrency\": 256}]"},
        {"fetch.tiers=[]", NULL},
        {"fetch.tiers={timeout: 2s}, {timeout: 2s}", NULL},
        {"fetch.tiers={timeout: 2s}, {timeout: 1s}", NULL},
        {"fetch.tiers={timeout: 2s, timeout: 3s}", NULL},
        {"fetch.tiers={concurrency: 2}", NULL},
        {"fetch.tiers={timeout: 2s, concurrency: 0}", NULL},
        {"fetch.tiers={timeout: 0}", NULL},
        {"fetch.tiers={timeout: 2s, [x]: 0}", NULL},
        {"fetch.tiers=2s", NULL},
        {"fetch.tiers={timeout: 1s}, {timeout: 2s}, {timeout: 3s}, {timeout: 4s}, {timeout: 5s}, {timeout: "
         "6s}, "
         "{timeout: 7s}, {timeout: 8s}, {timeout: 9s}",
         NULL},
        {"fetch.tiers=[{timeout: 1s}", NULL},
        {"auth.keys={name: a, sha256: '" HEX_A "', scopes: []}", NULL},
        {"auth.keys={name: a, sha256: '" HEX_A "', scopes: read}", NULL},
        {"auth.keys={name: a, sha256: '" HEX_A "', scopes: [write]}", NULL},
        {"auth.keys={name: a, sha256: 'aa', scopes: [read]}", NULL},
        {"auth.keys={name: a, sha256: '" HEX_A "'}", NULL},
        {"auth.keys={name: a/b, sha256: '" HEX_A "', scopes: [read]}", NULL},
        {"auth.keys={name: a, sha256: '" HEX_A "', scopes: [read], client: 'a:b'}", NULL},
        {"auth.keys={name: a, sha256: '" HEX_A "', scopes: [read]}, {name: a, sha256: '" HEX_B
         "', scopes: [read]}",
         NULL},
        {"auth.keys={name: a, sha256: '" HEX_A "', scopes: [read]}, {name: b, sha256: '" HEX_A
         "', scopes: [read]}",
         NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg;
        struct pp_config_error err;
        char name[64], buf[256];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(cases[i].set, "="), cases[i].set);
        enum pp_err e = load(&cfg, NULL, NULL, cases[i].set, &err);
        if ((e == PP_OK) != (cases[i].value != NULL))
            fail_msg("%s: %s", cases[i].set, err.text);
        if (e == PP_OK) {
            assert_string_equal(value_of(cfg, name, buf, sizeof buf), cases[i].value);
        } else {
            assert_int_equal(e, PP_EINVAL);
            assert_null(cfg);
            assert_string_equal(err.key, name);
            assert_non_null(strstr(err.text, "allowed: "));
        }
        pp_config_free(cfg);
    }
}

static void errors_name_file_and_line(void **state)
{
    (void)state;
    static const struct {
        const char *yaml;
        int line;
        const char *key, *says;
    } cases[] = {
        {"http:\n  lisen: x\n", 2, "http.lisen", "did you mean http.listen?"},
        {"\n\nlisten: x\n", 3, "listen", "did you mean http.listen?"},
        {"fetch.max-bytes: 1KiB\n", 1, "fetch.max-bytes", "did you mean fetch.max_bytes?"},
        {"htpp:\n  listen: x\n", 1, "htpp", "no such parameter; allowed"},
        {"whatever: 1\n", 1, "whatever", "no such parameter; allowed"},
        {"http: 3\n", 1, "http", "is a section"},
        {"http: [listen]\n", 1, "http", "is a section"},
        {"http:\n  listen:\n", 2, "http.listen", "there is no value; allowed: an address and port"},
        {"http:\n  listen: {a: b}\n", 2, "http.listen", "a map where a single value belongs"},
        {"http:\n  max_body: 3GiB\n", 2, "http.max_body", "allowed: a size from 1KiB to 1GiB"},
        {"http:\n  max_body: 3 apples\n", 2, "http.max_body", "\"3 apples\" is not a size"},
        {"http:\n  max_body: \"\\0\"\n", 2, "http.max_body", "control characters"},
        {"http:\n  max_body: \"\\e[1m\"\n", 2, "http.max_body", "control characters"},
        {"http:\n  header_timeout: 10\n", 2, "http.header_timeout", "\"10\" is not a duration"},
        {"http:\n  listen: 127.0.0.1:1\nhttp.listen: 127.0.0.1:2\n", 3, "http.listen",
         "is given twice, first in line 2"},
        {"fetch:\n  tiers:\n    - timeout: 1s\n    - timeout: 1s\n", 2, "fetch.tiers", "timeouts that grow"},
        {"fetch:\n  tiers:\n    - timeout: 1s\n      concurency: 1\n", 4, "fetch.tiers",
         "did you mean concurrency?"},
        {"fetch:\n  tiers:\n    - timeout: 1s\n    - {}\n", 4, "fetch.tiers", "without \"timeout\""},
        {"fetch:\n  tiers:\n    - timeout: 1s\n    - 5s\n", 4, "fetch.tiers", "not a map"},
        {"fetch:\n  allow_ports:\n    - 80\n    - 99999\n", 4, "fetch.allow_ports",
         "neither a port nor a range"},
        {"fetch:\n  allow_ports: 80\n", 2, "fetch.allow_ports", "is not a list of ports"},
        {"fetch:\n  allow_ports: &a [*a]\n", 2, "fetch.allow_ports", "a list where a single value belongs"},
        {"worker:\n  tiers: [1s, 2s]\n", 2, "worker.tiers", "allowed: those of fetch.tiers"},
        {"amqp:\n  url: amqp://h:99999/\n", 2, "amqp.url", "not well-formed; allowed: amqp[s]://"},
        {"amqp:\n  url: amqps://u:p%@h\n", 2, "amqp.url", "not well-formed"},
        {"kafka:\n  brokers: \"h:99999\"\n", 2, "kafka.brokers", "allowed: HOST[:PORT], by commas"},
        {"kafka:\n  brokers: a b\n", 2, "kafka.brokers", "not a list of brokers"},
        {"kafka:\n  brokers: \"a,,b\"\n", 2, "kafka.brokers", "not a list of brokers"},
        {"kafka:\n  brokers: \"[::1:9\"\n", 2, "kafka.brokers", "not a list of brokers"},
        {"kafka:\n  topic: a/b\n", 2, "kafka.topic", "allowed: A-Z a-z 0-9 . _ -"},
        {"kafka:\n  topic: ..\n", 2, "kafka.topic", "not the name of a topic"},
        {"http:\n\tlisten: x\n", 2, "", "a tab? indent with spaces"},
        {"http: [\n", 2, "", "not YAML"},
        {"coordinator:\n  url: local:\n", 2, "", "quote a value that ends in ':'"},
        {"x\n", 1, "", "not a map"},
        {"- x\n", 1, "", "not a map"},
        {"---\nhttp:\n---\nlog:\n", 4, "", "a second document"},
        {"http:\n  listen: \xff\n", 2, "", "not YAML"},
        {"? [a]\n: b\n", 1, "", "a key has to be a plain name"},
        {"'': b\n", 1, "", "no such parameter"},
        {"http.: b\n", 1, "http.", "no such parameter"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg;
        struct pp_config_error err;
        char place[32];
        if (load(&cfg, cases[i].yaml, NULL, NULL, &err) != PP_EINVAL)
            fail_msg("accepted: %s", cases[i].yaml);
        snprintf(place, sizeof place, "t.yaml:%d: ", cases[i].line);
        if (err.line != cases[i].line || strcmp(err.key, cases[i].key) || strcmp(err.file, "t.yaml") ||
            !strstr(err.text, cases[i].says) || strncmp(err.text, place, strlen(place)))
            fail_msg("%s-> %d %s %s", cases[i].yaml, err.line, err.key, err.text);
    }
}

static void sinks(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "amqp.url=amqps://h:1/", "amqp.url=amqp://[::1]:1/v", "amqp.url=amqp://u:p%40@h/%2f",
        "kafka.brokers=a:9092, [::1]:1 ,10.0.0.1:65535", "kafka.topic=a.B_c-9"};
    for (size_t i = 0; i < COUNT(sets); i++)
        pp_config_free(must_load(NULL, NULL, sets[i]));
}

static void empty_files_change_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {"",        "# only a comment\n",          "---\n", "~\n",
                                        "http:\n", "http:\n  # listen: x\nlog:\n"};
    for (size_t i = 0; i < COUNT(texts); i++)
        pp_config_free(must_load(texts[i], NULL, NULL));
}

static void the_environment(void **state)
{
    (void)state;
    static const struct {
        /* says: text that the error must contain; NULL: the variable causes no error */
        const char *env, *says;
    } cases[] = {
        {"PHOTOPOOL_HTTP_LISTN=x", "did you mean PHOTOPOOL_HTTP_LISTEN?"},
        {"PHOTOPOOL_HTTP_WHATEVER=x", "no such variable"},
        {"PHOTOPOOL_HTTP_LISTEN=x", "PHOTOPOOL_HTTP_LISTEN: http.listen: \"x\" is not"},
        {"PHOTOPOOL_SERVER=http://127.0.0.1:8080", NULL},
        {"PHOTOPOOL_KEY=secret", NULL},
        {"PHOTOPOOL_PORT=tcp://10.0.0.1:8080", NULL},
        {"PHOTOPOOL_PORT_8080_TCP_ADDR=10.0.0.1", NULL},
        {"PHOTOPOOL_SERVICE_HOST=10.0.0.1", NULL},
        {"PHOTOPOOL_HTTP_LISTEN", NULL},
        {"HTTP_LISTEN=x", NULL},
        {"PHOTOPOOL_FETCH_TIERS=[{timeout: 1s, concurrency: 256}]", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg;
        struct pp_config_error err;
        enum pp_err e = load(&cfg, NULL, cases[i].env, NULL, &err);
        if ((e == PP_OK) != !cases[i].says || (cases[i].says && !strstr(err.text, cases[i].says)))
            fail_msg("%s: %s", cases[i].env, err.text);
        pp_config_free(cfg);
    }
}

static void what_is_set_differs_from_the_default(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *env, *set;
        bool is_set;
    } cases[] = {{NULL, NULL, NULL, false},
                 {NULL, NULL, "clients.rpm=5", false},
                 {"blobs:\n  min_free: 1GiB\n", NULL, NULL, true},
                 {NULL, "PHOTOPOOL_BLOBS_MIN_FREE=5GiB", NULL, true},
                 {NULL, NULL, "blobs.min_free=5GiB", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg = must_load(cases[i].yaml, cases[i].env, cases[i].set);
        assert_int_equal(pp_config_is_set(cfg, "blobs.min_free"), cases[i].is_set);
        pp_config_free(cfg);
    }
}

static void unknown_flags(void **state)
{
    (void)state;
    static const struct {
        const char *set, *says;
    } cases[] = {{"clients.rmp=3", "did you mean clients.rpm?"},
                 {"clients.rpm", "write --set clients.rpm=VALUE"},
                 {"clients=3", "is a section"},
                 {"=3", "no such parameter"},
                 {"", "no such parameter"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct pp_config *cfg;
        struct pp_config_error err;
        assert_int_equal(load(&cfg, NULL, NULL, cases[i].set, &err), PP_EINVAL);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].set, err.text);
        assert_string_equal(err.file, "--set");
    }
}

static void open_servers_need_keys(void **state)
{
    (void)state;
    static const struct {
        const char *listen;
        bool open;
    } cases[] = {{"127.0.0.1:1", false}, {"127.9.9.9:1", false}, {"[::1]:1", false},   {"localhost:1", false},
                 {"0.0.0.0:1", true},    {"[::]:1", true},       {"10.0.0.1:1", true}, {"unix:a", false}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        char yaml[256];
        struct pp_config_error err;
        snprintf(yaml, sizeof yaml, "\nhttp.listen: \"%s\"\n", cases[i].listen);
        struct pp_config *cfg = must_load(yaml, NULL, NULL);
        assert_int_equal(pp_config_check(cfg, &err), cases[i].open ? PP_EINVAL : PP_OK);
        if (cases[i].open) {
            assert_int_equal(err.line, 2);
            assert_string_equal(err.key, "http.listen");
            assert_non_null(strstr(err.text, "auth.keys"));
            assert_non_null(strstr(err.text, "127.0.0.1"));
        }
        pp_config_free(cfg);
        cfg = must_load(yaml, NULL, "auth.keys={name: a, sha256: '" HEX_A "', scopes: [read]}");
        assert_int_equal(pp_config_check(cfg, &err), PP_OK);
        pp_config_free(cfg);
    }
}

static void options_are_taken_out(void **state)
{
    (void)state;
    char *argv[] = {(char *)"--set",
                    (char *)"--json",
                    (char *)"--config=",
                    (char *)"--set",
                    (char *)"clients.rpm=1",
                    (char *)"x",
                    (char *)"--set=clients.rpm=2",
                    (char *)"--data",
                    (char *)"/d",
                    (char *)"--settle",
                    (char *)"--",
                    (char *)"--set",
                    NULL};
    int argc = (int)COUNT(argv) - 1;
    struct pp_config_sources args;
    struct pp_config_error err;
    assert_int_equal(pp_config_args_take(&args, &argc, argv, &err), PP_OK);
    static const char *const left[] = {"--set", "--json", "x", "--settle", "--", "--set"};
    assert_int_equal(argc, COUNT(left));
    for (size_t i = 0; i < COUNT(left); i++)
        assert_string_equal(argv[i], left[i]);
    assert_null(argv[argc]);
    struct pp_config *cfg;
    char *env[] = {(char *)"PHOTOPOOL_CLIENTS_CONCURRENCY=7", NULL};
    args.env = (const char *const *)env;
    assert_int_equal(pp_config_load(&cfg, &args, &err), PP_OK);
    assert_int_equal(cfg->clients.rpm, 2);
    assert_int_equal(cfg->clients.concurrency, 7);
    assert_string_equal(cfg->store.url, "sqlite:/d/photopool.db");
    pp_config_free(cfg);
    pp_config_args_fini(&args);

    char *bad[] = {(char *)"up", (char *)"--config", NULL};
    argc = 2;
    assert_int_equal(pp_config_args_take(&args, &argc, bad, &err), PP_EINVAL);
    assert_string_equal(err.text, "--config: needs a value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units),
        cmocka_unit_test(units_are_read_back),
        cmocka_unit_test(edit_distance),
        cmocka_unit_test(the_table_is_sound),
        cmocka_unit_test(defaults),
        cmocka_unit_test(typed_fields),
        cmocka_unit_test(the_strongest_source_wins),
        cmocka_unit_test(every_parameter_has_every_source),
        cmocka_unit_test(ranges_are_closed),
        cmocka_unit_test(values),
        cmocka_unit_test(errors_name_file_and_line),
        cmocka_unit_test(sinks),
        cmocka_unit_test(empty_files_change_nothing),
        cmocka_unit_test(the_environment),
        cmocka_unit_test(what_is_set_differs_from_the_default),
        cmocka_unit_test(unknown_flags),
        cmocka_unit_test(open_servers_need_keys),
        cmocka_unit_test(options_are_taken_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
