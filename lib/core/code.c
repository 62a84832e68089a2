/* code.c: look-ups in the table of code.h. The rows come from PP_CODE_TABLE; this file adds the
 * rows that several HTTP statuses share.
 *
 * Invariant: every number has a row, so that a code from an old store can always be shown. */
#include "photopool/code.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

static const struct pp_code_info rows[PP_CODE_COUNT] = {
#define X(id, text, retry, fault, en, ru) [PP_CODE_##id] = {text, PP_##retry, PP_FAULT_##fault, {en, ru}},
    PP_CODE_TABLE(X)
#undef X
};

static const struct pp_code_info *http_row(uint16_t status)
{
    static const struct pp_code_info
        auth = {"http_4xx",
                PP_FINAL,
                PP_FAULT_MERCHANT,
                {"The host does not let us read the photo. Make it public.",
                 "Сервер не даёт нам прочитать фотографию. Откройте к ней доступ."}},
        gone = {"http_4xx",
                PP_FINAL,
                PP_FAULT_MERCHANT,
                {"The photo was not found at this address.", "Фотография по этому адресу не найдена."}},
        other_4xx = {"http_4xx",
                     PP_FINAL,
                     PP_FAULT_MERCHANT,
                     {"The host refused the request for the photo.", "Сервер отклонил запрос фотографии."}},
        again = {"http_4xx",
                 PP_RETRY,
                 PP_FAULT_HOST,
                 {"The host asked us to send the request again.", "Сервер попросил повторить запрос."}},
        too_many = {"http_4xx",
                    PP_WAIT,
                    PP_FAULT_HOST,
                    {"The host says that we ask too often. Raise its limit.",
                     "Сервер сообщает, что мы обращаемся слишком часто. Повысьте его предел."}},
        unavailable = {"http_5xx",
                       PP_WAIT,
                       PP_FAULT_HOST,
                       {"The host says that it is overloaded or in maintenance.",
                        "Сервер сообщает, что он перегружен или на обслуживании."}},
        other_5xx = {"http_5xx",
                     PP_RETRY,
                     PP_FAULT_HOST,
                     {"The host failed while it answered. We tried again.",
                      "Сервер ответил ошибкой. Мы попробовали ещё раз."}};
    switch (status) {
    case 401:
    case 403:
    case 407:
    case 451: return &auth;
    case 404:
    case 410: return &gone;
    case 408:
    case 425: return &again;
    case 429: return &too_many;
    case 503: return &unavailable;
    default: return status < 500 ? &other_4xx : &other_5xx;
    }
}

static int is_http(uint16_t code)
{
    return code >= 400 && code <= 599;
}

const struct pp_code_info *pp_code_info(uint16_t code)
{
    if (code < PP_CODE_COUNT)
        return &rows[code];
    if (is_http(code))
        return http_row(code);
    return &rows[PP_CODE_INTERNAL];
}

const char *pp_code_name(uint16_t code, char buf[PP_CODE_NAME_MAX])
{
    if (is_http(code))
        snprintf(buf, PP_CODE_NAME_MAX, "http_%u", (unsigned)code);
    else
        snprintf(buf, PP_CODE_NAME_MAX, "%s", pp_code_info(code)->name);
    return buf;
}

static uint16_t parse_http(const char *name)
{
    unsigned status = 0;
    for (size_t i = 5; i < 8; i++) {
        if (name[i] < '0' || name[i] > '9')
            return 0;
        status = status * 10 + (unsigned)(name[i] - '0');
    }
    return is_http((uint16_t)status) ? (uint16_t)status : 0;
}

uint16_t pp_code_parse(const char *name, size_t n)
{
    if (n == 8 && memcmp(name, "http_", 5) == 0)
        return parse_http(name);
    for (unsigned i = 1; i < PP_CODE_COUNT; i++) {
        if (strlen(rows[i].name) == n && memcmp(rows[i].name, name, n) == 0)
            return (uint16_t)i;
    }
    return 0;
}

uint16_t pp_code_parse_class(const char *name, size_t n)
{
    if (n == 8 && memcmp(name, "http_4xx", 8) == 0)
        return PP_CODE_HTTP_4XX;
    if (n == 8 && memcmp(name, "http_5xx", 8) == 0)
        return PP_CODE_HTTP_5XX;
    return pp_code_parse(name, n);
}

const char *pp_code_text(uint16_t code)
{
    return pp_code_info(code)->message[PP_ENGLISH];
}

const char *pp_fault_name(enum pp_fault fault)
{
    static const char *const names[] = {"merchant", "host", "policy", "photopool"};
    pp_assert((size_t)fault < sizeof names / sizeof *names, "no such fault");
    return names[fault];
}

int pp_language_parse(const char *name, size_t n)
{
    static const char *const languages[PP_LANGUAGES] = {"en", "ru"};
    for (int i = 0; i < PP_LANGUAGES; i++)
        if (n == 2 && strncasecmp(languages[i], name, n) == 0)
            return i;
    return -1;
}
