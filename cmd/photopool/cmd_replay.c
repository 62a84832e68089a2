/* cmd_replay.c: `photopool replay`: makes a new batch of the items of an old batch that have failed
 * photos. */
#include "show.h"

static const char help[] =
    "Usage: photopool replay BATCH [--code C]... [--domain D]... [--dry-run]\n\n"
    "Fetches again the photos of a batch that failed, as a new batch.\n\n"
    "  --code C     only photos that failed with this code, or class (http_5xx); may be given several times\n"
    "  --domain D   only photos of this domain; may be given several times\n"
    "  --dry-run    only say how many there are\n\n"
    "Examples:\n"
    "  photopool replay b_01JD3Z --dry-run\n"
    "  photopool replay b_01JD3Z --code body_timeout --code connect_timeout --domain shop.example\n";

static json_t *texts(const struct pp_cli_list *list)
{
    json_t *a = json_array();
    for (size_t i = 0; i < list->n; i++)
        json_array_append_new(a, json_string(list->item[i]));
    return a;
}

/* Appends why the replay leaves photos out. */
static void put_left_out(struct pp_buf *b, const json_t *answer)
{
    const json_t *why = json_object_get(answer, "not_replayed");
    int64_t newer = json_integer_value(json_object_get(why, "newer_revision"));
    if (newer == 0)
        return;
    pp_buf_puts(b, "; ");
    pp_put_count(b, newer);
    pp_buf_puts(b, newer == 1 ? " is" : " are");
    pp_buf_puts(b, " left out, because a newer batch has sent the item again");
}

static void show(const struct pp_cli *cli, json_t *answer, bool dry_run)
{
    const char *id = pp_member(answer, "batch_id");
    struct pp_buf b;
    if (cli->json) {
        pp_print_json(answer);
        return;
    }
    int64_t n = json_integer_value(json_object_get(answer, "photos"));
    pp_buf_init(&b, 4096);
    pp_put_count(&b, n);
    pp_buf_puts(&b, n == 1 ? " photo" : " photos");
    if (id) {
        pp_buf_puts(&b, " in batch ");
        pp_put_clean(&b, id);
    } else {
        pp_buf_puts(&b, dry_run ? " would be fetched again" : " to fetch again");
    }
    put_left_out(&b, answer);
    pp_buf_putc(&b, '\n');
    pp_term_put(&cli->out, &b);
    json_decref(answer);
}

int pp_cmd_replay(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    struct pp_cli_list codes = {.n = 0}, domains = {.n = 0};
    bool dry_run = false;
    const struct pp_opt opts[] = {
        {"code", PP_OPT_LIST, &codes},
        {"domain", PP_OPT_LIST, &domains},
        {"dry-run", PP_OPT_FLAG, &dry_run},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 1, 1, "BATCH"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    json_t *answer, *body = json_object();
    if (codes.n)
        json_object_set_new(body, "codes", texts(&codes));
    if (domains.n)
        json_object_set_new(body, "domains", texts(&domains));
    json_object_set_new(body, "dry_run", json_boolean(dry_run));
    pp_path_part(pp_path(&path, "/v1/batches"), cli.args[0]);
    pp_buf_puts(&path, "/replay");
    code = pp_client_call(&cli, "POST", &path, body, &answer);
    if (code == PP_EXIT_DONE)
        show(&cli, answer, dry_run);
    return pp_client_finish(&cli, code);
}
