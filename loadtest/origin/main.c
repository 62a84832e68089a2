/* main.c: the command line of `origin`, a photo host that misbehaves on demand. loadtest/README.md
 * explains its use. */
#include <arpa/inet.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "server.h"

static void usage(FILE *out)
{
    fputs("origin [--listen ADDRESS]... [options]       serve until SIGTERM\n"
          "origin check FILE [options]                  compares a record with limits (origin check --help)\n"
          "\n"
          "  --listen A:P        127.0.0.1:9000 by default; [::1]:9000; port 0 for any; may be repeated\n"
          "  --tls-listen A:P    the same for https, with --cert FILE and --key FILE (PEM)\n"
          "  --port-file FILE    writes the ports, one a line in the order given, once the origin listens\n"
          "  --threads N         1 to 64 (1)\n"
          "  --max-connections N per thread (20000)\n"
          "  --files DIR         DIR/NAME as /files/NAME\n"
          "  --record FILE       appends a line for every request\n"
          "  --hosts FILE        lines HOST key=value key=value; SIGHUP reads it again\n"
          "  --behaviour TEXT    key=value pairs for all hosts without a line\n"
          "  --seed N            seed of all random choices (0)\n"
          "  --keep-heads N      the last N request heads, at /_heads\n"
          "\n"
          "A request is answered with a made-up picture, the same for the same URL. Keys, in the query of a "
          "URL, a host's line or\n"
          "--behaviour (each overrides the next):\n",
          out);
    og_behaviour_help();
    fputs("WHAT is a status, reset, stall, stallbody, cut, badchunk, endless, twolengths, bomb, or a body "
          "(html, svg, ...).\n"
          "\n"
          "Pages: /_stats /_max /_heads; POST /_reset /_reload /_flush\n"
          "\n"
          "  origin --listen 127.0.0.1:0 --port-file port --record record.txt\n"
          "  origin --behaviour 'bytes=75000 delay=100-900 fail=0.3:404,0.1:503,0.05:reset'\n"
          "  origin --listen 127.0.0.1:9000 --files /usr/share/backgrounds --hosts hosts.txt\n"
          "  curl 'http://127.0.0.1:9000/c/42/a.jpg?bytes=20000&drip=1000'\n",
          out);
}

/* Reads an address: "127.0.0.1:9000", "[::1]:9000", or ":9000" for all IPv4 addresses. */
static bool parse_address(const char *text, struct sockaddr_storage *sa)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    if (colon == NULL || (size_t)(colon - text) >= sizeof host)
        return false;
    char *end;
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port > 65535)
        return false;
    size_t n = (size_t)(colon - text);
    memcpy(host, text, n);
    host[n] = '\0';
    if (host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = '\0';
        return uv_ip6_addr(host + 1, (int)port, (struct sockaddr_in6 *)sa) == 0;
    }
    return uv_ip4_addr(n > 0 ? host : "0.0.0.0", (int)port, (struct sockaddr_in *)sa) == 0;
}

static int wrong(const char *option, const char *why)
{
    fprintf(stderr, "origin: %s: %s (origin --help)\n", option, why);
    return 2;
}

static bool add_listen(struct og_options *o, const char *text, bool tls)
{
    if (o->listens == OG_LISTENS || !parse_address(text, &o->listen[o->listens].sa))
        return false;
    o->listen[o->listens++].tls = tls;
    return true;
}

/* Parses a whole number from lo to hi into `*out`. Returns false if the text is anything else. */
static bool number(const char *text, unsigned long lo, unsigned long hi, unsigned long *out)
{
    char *end;
    *out = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *out >= lo && *out <= hi;
}

enum {
    LISTEN = 1,
    TLS_LISTEN,
    PORT_FILE,
    THREADS,
    CONNECTIONS,
    FILES,
    RECORD,
    HOSTS,
    BEHAVIOUR,
    SEED,
    HEADS,
    CERT,
    KEY,
    HELP
};

static const struct option options[] = {
    {"listen", required_argument, NULL, LISTEN},
    {"tls-listen", required_argument, NULL, TLS_LISTEN},
    {"port-file", required_argument, NULL, PORT_FILE},
    {"threads", required_argument, NULL, THREADS},
    {"files", required_argument, NULL, FILES},
    {"max-connections", required_argument, NULL, CONNECTIONS},
    {"record", required_argument, NULL, RECORD},
    {"hosts", required_argument, NULL, HOSTS},
    {"behaviour", required_argument, NULL, BEHAVIOUR},
    {"seed", required_argument, NULL, SEED},
    {"keep-heads", required_argument, NULL, HEADS},
    {"cert", required_argument, NULL, CERT},
    {"key", required_argument, NULL, KEY},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0},
};

/* Applies one option. Returns 0, or the exit code after printing the error. */
static int take(struct og_options *o, int c)
{
    char why[256];
    unsigned long v = 0;
    switch (c) {
    case LISTEN:
    case TLS_LISTEN:
        return add_listen(o, optarg, c == TLS_LISTEN) ? 0 : wrong(optarg, "not ADDRESS:PORT, or too many");
    case PORT_FILE: o->port_file = optarg; return 0;
    case FILES: o->files = optarg; return 0;
    case RECORD: o->record = optarg; return 0;
    case HOSTS: o->hosts = optarg; return 0;
    case CERT: o->cert = optarg; return 0;
    case KEY: o->key = optarg; return 0;
    case THREADS:
        if (!number(optarg, 1, OG_THREADS, &v))
            return wrong("--threads", "1 to 64");
        o->threads = (unsigned)v;
        return 0;
    case CONNECTIONS:
        if (!number(optarg, 1, 1000000, &v))
            return wrong("--max-connections", "1 to 1000000");
        o->max_connections = (unsigned)v;
        return 0;
    case HEADS:
        if (!number(optarg, 0, 4096, &v))
            return wrong("--keep-heads", "0 to 4096");
        o->keep_heads = (unsigned)v;
        return 0;
    case SEED:
        if (!number(optarg, 0, UINT32_MAX, &v))
            return wrong("--seed", "0 to 4294967295");
        o->seed = v;
        return 0;
    case BEHAVIOUR:
        return og_behaviour_text(&o->behaviour, optarg, strlen(optarg), why, sizeof why)
                   ? 0
                   : wrong("--behaviour", why);
    default: usage(stderr); return 2;
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "check") == 0)
        return og_check_main(argc - 1, argv + 1);
    struct og_options o = {.threads = 1, .max_connections = 20000};
    og_behaviour_init(&o.behaviour);
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == HELP) {
            usage(stdout);
            return 0;
        }
        int code = take(&o, c);
        if (code != 0)
            return code;
    }
    if (optind != argc)
        return wrong(argv[optind], "unexpected");
    if (o.listens == 0)
        add_listen(&o, "127.0.0.1:9000", false);
    bool tls = false;
    for (unsigned i = 0; i < o.listens; i++)
        tls |= o.listen[i].tls;
    if (tls != (o.cert != NULL) || tls != (o.key != NULL))
        return wrong("--tls-listen", "goes with --cert and --key");
    return og_serve(&o);
}
