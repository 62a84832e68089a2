/* s3_xml.c: see s3_xml.h. One walk for both documents: it keeps the path of open elements, as far as they are
 * known, and the text of the innermost. */
#include "adapter/s3/s3_xml.h"

#include <expat.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEPTH_MAX 32

enum element {
    EL_OTHER,
    EL_LIST,      /* ListBucketResult */
    EL_CONTENTS,  /* one name */
    EL_KEY,       /* in Contents */
    EL_MODIFIED,  /* LastModified, in Contents */
    EL_TRUNCATED, /* IsTruncated */
    EL_TOKEN,     /* NextContinuationToken */
    EL_ERROR,     /* Error */
    EL_CODE,
    EL_MESSAGE,
    EL_REGION
};

/* Which element counts where. `cap`: of its text, with a NUL; 0: it has none. */
static const struct {
    const char *name;
    enum element in, is;
    size_t cap;
    bool cut; /* text that does not fit is cut; else the document is refused */
} known[] = {
    {"ListBucketResult", EL_OTHER, EL_LIST, 0, false},
    {"Contents", EL_LIST, EL_CONTENTS, 0, false},
    {"Key", EL_CONTENTS, EL_KEY, PP_S3_KEY_MAX, false},
    {"LastModified", EL_CONTENTS, EL_MODIFIED, 40, false},
    {"IsTruncated", EL_LIST, EL_TRUNCATED, 8, false},
    {"NextContinuationToken", EL_LIST, EL_TOKEN, PP_S3_TOKEN_MAX, false},
    {"Error", EL_OTHER, EL_ERROR, 0, false},
    {"Code", EL_ERROR, EL_CODE, 64, true},
    {"Message", EL_ERROR, EL_MESSAGE, 256, true},
    {"Region", EL_ERROR, EL_REGION, 64, true},
};
#define N_KNOWN (sizeof(known) / sizeof(*known))

struct walk {
    XML_Parser parser;
    enum element root; /* that the document must have */
    bool failed;
    size_t depth;
    unsigned char path[DEPTH_MAX]; /* enum element */
    size_t row;                    /* of `known`, whose text is collected; N_KNOWN: none */
    char text[PP_S3_TOKEN_MAX];
    size_t n;
    /* of Contents */
    char key[PP_S3_KEY_MAX];
    size_t key_n;
    int64_t modified_ms;
    bool has_key, has_time;
    pp_s3_name_fn fn;
    void *data;
    struct pp_s3_page *page;
    bool has_truncated;
    struct pp_s3_error *error;
};

static void fail(struct walk *w)
{
    w->failed = true;
    XML_StopParser(w->parser, XML_FALSE);
}

/* --- times --- */

static bool digits(const char *s, size_t n, int *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        *out = *out * 10 + (s[i] - '0');
    }
    return true;
}

static int days_of(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

bool pp_s3_time_parse(const char *s, size_t n, int64_t *ms)
{
    struct tm tm = {0};
    int year, month, fraction = 0, scale = 100;

    if (n < 20 || n > 40 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' ||
        s[n - 1] != 'Z')
        return false;
    if (!digits(s, 4, &year) || !digits(s + 5, 2, &month) || !digits(s + 8, 2, &tm.tm_mday) ||
        !digits(s + 11, 2, &tm.tm_hour) || !digits(s + 14, 2, &tm.tm_min) || !digits(s + 17, 2, &tm.tm_sec))
        return false;
    if (n > 20 && (n == 21 || s[19] != '.'))
        return false;
    for (size_t i = 20; i + 1 < n; i++, scale /= 10) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        fraction += (s[i] - '0') * scale;
    }
    if (year < 1970 || month < 1 || month > 12 || tm.tm_mday < 1 || tm.tm_mday > days_of(year, month) ||
        tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
        return false;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    *ms = (int64_t)timegm(&tm) * 1000 + fraction;
    return true;
}

/* --- the walk --- */

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *w = data;
    enum element in = w->depth ? w->path[w->depth - 1] : EL_OTHER;
    size_t row = 0;

    (void)attributes;
    if (w->failed) /* expat may call once more after it was stopped */
        return;
    if (w->depth == DEPTH_MAX) {
        fail(w);
        return;
    }
    while (row < N_KNOWN && (known[row].in != in || strcmp(known[row].name, name) != 0))
        row++;
    enum element is = row < N_KNOWN ? known[row].is : EL_OTHER;
    bool is_root = is == EL_LIST || is == EL_ERROR;
    if (is_root && w->depth > 0) /* such a name further in says nothing */
        is = EL_OTHER;
    if (w->depth == 0 && is != w->root) {
        fail(w);
        return;
    }
    w->path[w->depth++] = (unsigned char)is;
    w->row = is != EL_OTHER && known[row].cap ? row : N_KNOWN;
    w->n = 0;
    if (is == EL_CONTENTS)
        w->has_key = w->has_time = false;
}

static void XMLCALL on_text(void *data, const XML_Char *s, int len)
{
    struct walk *w = data;
    size_t n = (size_t)len;

    if (w->failed || w->row == N_KNOWN)
        return;
    size_t room = known[w->row].cap - 1 - w->n;
    if (n > room && !known[w->row].cut) {
        fail(w);
        return;
    }
    n = n < room ? n : room;
    memcpy(w->text + w->n, s, n);
    w->n += n;
}

static bool end_of_contents(struct walk *w)
{
    if (!w->has_key || !w->has_time)
        return false;
    w->fn(w->data, w->key, w->key_n, w->modified_ms);
    return true;
}

static bool end_of_key(struct walk *w)
{
    if (w->has_key)
        return false;
    memcpy(w->key, w->text, w->n);
    w->key[w->n] = '\0';
    w->key_n = w->n;
    return w->has_key = true;
}

static bool end_of_truncated(struct walk *w)
{
    if (w->has_truncated)
        return false;
    w->page->truncated = w->n == 4 && memcmp(w->text, "true", 4) == 0;
    w->has_truncated = true;
    return w->page->truncated || (w->n == 5 && memcmp(w->text, "false", 5) == 0);
}

static bool copy(char *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

/* An element has ended whose text is in w->text. False: the document is not what it should be. */
static bool end_of(struct walk *w, enum element is)
{
    switch (is) {
    case EL_CONTENTS: return end_of_contents(w);
    case EL_KEY: return end_of_key(w);
    case EL_MODIFIED: return !w->has_time && (w->has_time = pp_s3_time_parse(w->text, w->n, &w->modified_ms));
    case EL_TRUNCATED: return end_of_truncated(w);
    case EL_TOKEN: return copy(w->page->token, w->text, w->n);
    case EL_CODE: return copy(w->error->code, w->text, w->n);
    case EL_MESSAGE: return copy(w->error->message, w->text, w->n);
    case EL_REGION: return copy(w->error->region, w->text, w->n);
    case EL_OTHER:
    case EL_LIST:
    case EL_ERROR: break;
    }
    return true;
}

static void XMLCALL on_end(void *data, const XML_Char *name)
{
    struct walk *w = data;

    (void)name;
    if (w->failed)
        return;
    if (!end_of(w, w->path[--w->depth]))
        fail(w);
    w->row = N_KNOWN;
}

static void XMLCALL on_doctype(void *data, const XML_Char *name, const XML_Char *sysid, const XML_Char *pubid,
                               int internal)
{
    (void)name, (void)sysid, (void)pubid, (void)internal;
    fail(data);
}

static bool walk(struct walk *w, const char *xml, size_t n)
{
    w->row = N_KNOWN;
    w->parser = n <= 1 << 30 ? XML_ParserCreate(NULL) : NULL;
    if (!w->parser)
        return false;
    XML_SetUserData(w->parser, w);
    XML_SetElementHandler(w->parser, on_start, on_end);
    XML_SetCharacterDataHandler(w->parser, on_text);
    XML_SetStartDoctypeDeclHandler(w->parser, on_doctype);
    bool whole = XML_Parse(w->parser, xml, (int)n, XML_TRUE) == XML_STATUS_OK;
    XML_ParserFree(w->parser);
    return whole && !w->failed;
}

bool pp_s3_list_parse(const char *xml, size_t n, pp_s3_name_fn fn, void *data, struct pp_s3_page *page)
{
    struct walk w = {.root = EL_LIST, .fn = fn, .data = data, .page = page};

    page->truncated = false;
    page->token[0] = '\0';
    return walk(&w, xml, n) && w.has_truncated && (!page->truncated || page->token[0]);
}

/* --- errors --- */

static void make_printable(char *s)
{
    for (; *s; s++)
        if (*s < ' ' || *s > '~')
            *s = '?';
}

static void only_word(char *s)
{
    for (const char *c = s; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              *c == '-')) {
            *s = '\0';
            return;
        }
}

bool pp_s3_error_parse(const char *xml, size_t n, struct pp_s3_error *e)
{
    struct walk w = {.root = EL_ERROR, .error = e};

    memset(e, 0, sizeof(*e));
    bool ok = walk(&w, xml, n);
    if (!ok)
        memset(e, 0, sizeof(*e));
    only_word(e->code);
    only_word(e->region);
    make_printable(e->message);
    return ok;
}
