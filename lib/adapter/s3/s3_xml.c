/* s3_xml.c: reads both kinds of documents by one walk, which keeps the path of open elements and
 * the text of the innermost one. To read another element, add a row to `known` and a case to
 * on_element(). */
#include "adapter/s3/s3_xml.h"

#include <expat.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define DEPTH_MAX 32

enum element {
    EL_OTHER,
    EL_LIST,      /* ListBucketResult */
    EL_CONTENTS,  /* one object of the list */
    EL_KEY,       /* in Contents */
    EL_MODIFIED,  /* LastModified, in Contents */
    EL_TRUNCATED, /* IsTruncated */
    EL_TOKEN,     /* NextContinuationToken */
    EL_ERROR,     /* Error */
    EL_CODE,
    EL_MESSAGE,
    EL_REGION
};

/* The elements that are read, and the element that each must be in. `cap`: bytes of its text, with
 * a NUL; 0: it has no text. */
static const struct {
    const char *name;
    enum element in, is;
    size_t cap;
    bool cut; /* true: a text that does not fit is cut off; false: the document is refused */
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
    enum element root; /* the root element that the document must have */
    bool failed;
    size_t depth;
    unsigned char path[DEPTH_MAX]; /* values of enum element */
    size_t row;                    /* the row of `known` whose text is collected; N_KNOWN: none */
    char text[PP_S3_TOKEN_MAX];
    size_t n;
    /* values of the current Contents element */
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

bool pp_s3_time_parse(const char *s, size_t n, int64_t *ms)
{
    char text[41] = "";

    if (n < 20 || n >= sizeof(text) || s[10] != 'T' || s[n - 1] != 'Z' || memchr(s, '\0', n))
        return false;
    memcpy(text, s, n);
    return pp_time_parse(text, ms);
}

/* --- the walk --- */

/* Returns the row of `known` for this name inside this element; N_KNOWN: there is none. */
static size_t row_of(enum element in, const char *name)
{
    size_t row = 0;

    while (row < N_KNOWN && (known[row].in != in || strcmp(known[row].name, name) != 0))
        row++;
    return row;
}

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *w = data;
    enum element in = w->depth ? w->path[w->depth - 1] : EL_OTHER;
    size_t row = row_of(in, name);
    enum element is = row < N_KNOWN ? known[row].is : EL_OTHER;

    (void)attributes;
    if (w->failed) /* expat may call once more after it was stopped */
        return;
    if (w->depth == DEPTH_MAX || (w->depth == 0 && is != w->root)) {
        fail(w);
        return;
    }
    /* these elements are read only as the root of the document */
    if (w->depth > 0 && (is == EL_LIST || is == EL_ERROR))
        is = EL_OTHER;
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
    pp_assert(w->n < known[w->row].cap, "an element's text has grown beyond its room");
    size_t room = known[w->row].cap - 1 - w->n;
    if (n > room && !known[w->row].cut) {
        fail(w);
        return;
    }
    n = n < room ? n : room;
    memcpy(w->text + w->n, s, n);
    w->n += n;
}

static bool copy_text(char *to, const struct walk *w)
{
    memcpy(to, w->text, w->n);
    to[w->n] = '\0';
    return true;
}

static bool on_key(struct walk *w)
{
    if (w->has_key)
        return false;
    w->key_n = w->n;
    return w->has_key = copy_text(w->key, w);
}

static bool on_truncated(struct walk *w)
{
    if (w->has_truncated)
        return false;
    w->page->truncated = w->n == 4 && memcmp(w->text, "true", 4) == 0;
    w->has_truncated = true;
    return w->page->truncated || (w->n == 5 && memcmp(w->text, "false", 5) == 0);
}

/* Handles the end of an element, whose text is in w->text. Returns false if the document is
 * refused. */
static bool on_element(struct walk *w, enum element is)
{
    switch (is) {
    case EL_CONTENTS:
        if (w->has_key && w->has_time)
            w->fn(w->data, w->key, w->key_n, w->modified_ms);
        return w->has_key && w->has_time;
    case EL_KEY: return on_key(w);
    case EL_MODIFIED: return !w->has_time && (w->has_time = pp_s3_time_parse(w->text, w->n, &w->modified_ms));
    case EL_TRUNCATED: return on_truncated(w);
    case EL_TOKEN: return copy_text(w->page->token, w);
    case EL_CODE: return copy_text(w->error->code, w);
    case EL_MESSAGE: return copy_text(w->error->message, w);
    case EL_REGION: return copy_text(w->error->region, w);
    default: return true;
    }
}

static void XMLCALL on_end(void *data, const XML_Char *name)
{
    struct walk *w = data;

    (void)name;
    if (w->failed)
        return;
    pp_assert(w->depth > 0, "more elements end than have begun");
    if (!on_element(w, w->path[--w->depth]))
        fail(w);
    w->row = N_KNOWN;
}

static void XMLCALL on_doctype(void *data, const XML_Char *name, const XML_Char *sysid, const XML_Char *pubid,
                               int internal)
{
    (void)name, (void)sysid, (void)pubid, (void)internal;
    fail(data);
}

static bool walk_document(struct walk *w, const char *xml, size_t n)
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
    return walk_document(&w, xml, n) && w.has_truncated && (!page->truncated || page->token[0]);
}

/* --- errors --- */

static void make_printable(char *s)
{
    for (; *s; s++)
        if (*s < ' ' || *s > '~')
            *s = '?';
}

/* Empties a text that is not a word of letters, digits and hyphens. */
static void keep_word(char *s)
{
    if (s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")])
        *s = '\0';
}

bool pp_s3_error_parse(const char *xml, size_t n, struct pp_s3_error *e)
{
    struct walk w = {.root = EL_ERROR, .error = e};

    memset(e, 0, sizeof(*e));
    bool ok = walk_document(&w, xml, n);
    if (!ok)
        memset(e, 0, sizeof(*e));
    keep_word(e->code);
    keep_word(e->region);
    make_printable(e->message);
    return ok;
}
