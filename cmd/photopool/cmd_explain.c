/* cmd_explain.c: `photopool explain`: what would happen to a photo now, why, and when next. */
#include "client.h"
#include "show.h"

static const char help[] =
    "Usage: photopool explain --client ID URL\n\n"
    "Says what would happen to this photo now: the client's limit and slot, how long its host asked for\n"
    "patience, recorded failures, the learned route, and what is known of the photo.\n\n"
    "Examples:\n"
    "  photopool explain --client 42 https://shop.example/1.jpg\n"
    "  photopool explain --client 42 https://shop.example/1.jpg --json | jq .would\n";

int pp_cmd_explain(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    struct pp_buf path;
    json_t *answer;
    const char *client = NULL;
    const struct pp_opt opts[] = {{"client", PP_OPT_TEXT, &client}};
    const struct pp_cli_spec spec = {help, opts, 1, 1, 1, "URL"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (!client)
        return pp_cli_usage(&cli, "--client is missing: whose photo is it?");
    if ((code = pp_client_open(&c, &cli)) != PP_EXIT_DONE)
        return code;
    pp_path(&path, "/v1/explain");
    pp_path_query(&path, "client", client);
    pp_path_query(&path, "url", cli.args[0]);
    code = pp_client_get(c, path.p ? path.p : "/", &answer);
    if (code == PP_EXIT_DONE)
        pp_show_answer(&cli, answer);
    pp_buf_fini(&path);
    return pp_client_finish(c, code);
}
