/* cmd_drain.c: `photopool drain`: asks workers to finish their transfers, claim no more, and end,
 * as after SIGTERM. */
#include "client.h"
#include "show.h"

static const char help[] =
    "Usage: photopool drain [WORKER]\n\n"
    "Lets a worker, or all of them, finish what is in flight, claim no more and then end its process, as "
    "SIGTERM does.\n"
    "What has not finished within worker.drain is handed back and not counted as an attempt. photopool up is "
    "one process\n"
    "with one worker: it ends with its API.\n\n"
    "Examples:\n"
    "  photopool drain\n"
    "  photopool drain host-4711-a1b2c3\n";

int pp_cmd_drain(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    json_t *answer;
    const struct pp_cli_spec spec = {help, NULL, 0, 0, 1, ""};
    int code = pp_client_start(&c, &cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    json_t *body = json_pack("{s:s?}", "worker", cli.n_args ? cli.args[0] : NULL);
    code = pp_client_post(c, "POST", "/v1/workers/drain", body, &answer);
    if (code == PP_EXIT_DONE)
        pp_show_answer(&cli, answer);
    json_decref(body);
    return pp_client_finish(c, code);
}
