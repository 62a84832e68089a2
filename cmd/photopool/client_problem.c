/* client_problem.c: why a request failed and what to do, in one sentence; and the exit code.
 *
 * A problem document (RFC 9457) has code and detail, and may have field, incident and remedy. To
 * replace the server's remedy for a code at the command line, add a row to the table. */
#include "client.h"

#include <ctype.h>
#include <string.h>

/* What to do at the command line, for each code; "" if the server's detail is enough. For other
 * codes, the remedy of the server is shown. */
static const struct {
    const char *code, *remedy;
} remedies[] = {
    {"unauthorized", "set PHOTOPOOL_KEY, or give --key-file FILE, with a key of this server"},
    {"forbidden", "use a key with the scope that this needs"},
    {"body_too_large", "submit with a smaller --batch-size"},
    {"too_many_items", "submit with a smaller --batch-size"},
    {"overloaded", "try again a little later"},
    {"rate_limited", "try again a little later"},
    {"not_found", "check the id, and whose key this is: others' things are not shown"},
    {"bad_client", ""},
    {"bad_parameter", ""},
    {"bad_value", ""},
    {"idempotency_mismatch",
     "the --idempotency-key belongs to another file or other options; choose a new one"},
};

/* Appends a sentence such as "Try again." as a clause: "; try again". */
static void put_remedy(struct pp_buf *b, const char *code, const char *given)
{
    const char *remedy = given ? given : "";
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (strcmp(remedies[i].code, code) == 0)
            remedy = remedies[i].remedy;
    size_t n = strlen(remedy);
    if (n && remedy[n - 1] == '.')
        n--;
    if (n == 0)
        return;
    bool word = isupper((unsigned char)remedy[0]) && islower((unsigned char)remedy[1]);
    pp_buf_puts(b, "; ");
    pp_buf_putc(b, word ? (char)tolower((unsigned char)remedy[0]) : remedy[0]);
    pp_buf_put(b, remedy + 1, n - 1);
}

bool pp_answer_has_code(const struct pp_answer *ans, const char *code)
{
    json_t *doc = pp_answer_json(ans, 0);
    const char *given = pp_member(doc, "code");
    bool same = given && strcmp(given, code) == 0;
    json_decref(doc);
    return same;
}

static int unreachable(const struct pp_api_client *c, const struct pp_answer *ans)
{
    pp_complain("can't reach %s: %s; start a server with \"photopool up\", or name another with --server or "
                "PHOTOPOOL_SERVER",
                pp_client_base(c), ans->why);
    return PP_EXIT_UNREACHABLE;
}

static void refused(const struct pp_api_client *c, const struct pp_answer *ans)
{
    json_t *doc = pp_answer_json(ans, 0);
    const char *code = pp_member(doc, "code"), *detail = pp_member(doc, "detail"),
               *field = pp_member(doc, "field");
    if (!detail)
        detail = pp_member(doc, "title");
    if (!code || !detail) {
        pp_complain("%s answered HTTP %ld and no explanation; is a photopool server there?",
                    pp_client_base(c), ans->status);
    } else {
        const char *incident = pp_member(doc, "incident");
        struct pp_buf text;
        pp_buf_init(&text, 8192);
        if (field && !strstr(detail, field))
            pp_buf_printf(&text, "%s: ", field);
        pp_buf_printf(&text, "%s (%s, HTTP %ld", detail, code, ans->status);
        if (incident)
            pp_buf_printf(&text, ", incident %s", incident);
        pp_buf_putc(&text, ')');
        put_remedy(&text, code, pp_member(doc, "remedy"));
        pp_complain("%s", text.p ? text.p : code);
        pp_buf_fini(&text);
    }
    json_decref(doc);
}

int pp_client_failed(const struct pp_api_client *c, enum pp_err err, const struct pp_answer *ans)
{
    switch (err) {
    case PP_OK: refused(c, ans); return PP_EXIT_FAILED;
    case PP_EIO:
    case PP_ETIMEOUT: return unreachable(c, ans);
    case PP_ECANCELED: pp_complain("interrupted"); return PP_EXIT_FAILED;
    case PP_EFULL: pp_complain("the answer of %s is too large", pp_client_base(c)); return PP_EXIT_FAILED;
    default: pp_complain("%s", pp_err_text(err)); return PP_EXIT_FAILED;
    }
}
