/* s3_xml.c: parses lists of objects and error documents. One walk handles both: it keeps the path
 * of open elements and the text of the innermost one. To read another element, add a row to
 * `known`. */
#include "adapter/s3/s3_xml.h"

#include <expat.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define DEPTH_MAX 32

enum element {
    EL_OTHER,
    EL_LIST,
    EL_CONTENTS, /* one object of the list */
    EL_KEY,
    EL_MODIFIED,
    EL_TRUNCATED,
    EL_TOKEN,
    EL_ERROR,
    EL_CODE,
    EL_MESSAGE,
    EL_REGION
};

struct walk {
    XML_Parser parser;
    enum element root; /* which root element the document must have */
    bool failed;
    size_t depth;
    unsigned char path[DEPTH_MAX]; /* the open elements, outermost first, as enum element */
    enum element reading;          /* the element whose text is collected; EL_OTHER: none */
    size_t n;                      /* bytes of the text collected so far */
    unsigned seen; /* bit 1 << E is set once element E has occurred, for elements that may occur once */
    /* The values of the object (Contents element) that is being read. */
    char key[PP_S3_KEY_MAX], modified[40];
    size_t key_n;
    int64_t modified_ms;
    pp_s3_name_fn fn;
    void *data;
    char truncated[8];
    /* The results of the walk. */
    struct pp_s3_page page;
    struct pp_s3_error error;
};

/* The elements that the walk reads: the name, the element that must enclose each, where its text
 * goes, and `cap`, the room for the text in bytes with its NUL. 0: the element has no text. */
#define TEXT(member) offsetof(struct walk, member), sizeof(((struct walk *)0)->member)
static const struct {
    const char *name;
    enum element in;
    size_t at, cap;
    bool cut; /* true: a text that does not fit is cut; false: the document is refused */
} known[] = {
    [EL_LIST] = {"ListBucketResult", EL_OTHER},
    [EL_CONTENTS] = {"Contents", EL_LIST},
    [EL_KEY] = {"Key", EL_CONTENTS, TEXT(key)},
    [EL_MODIFIED] = {"LastModified", EL_CONTENTS, TEXT(modified)},
    [EL_TRUNCATED] = {"IsTruncated", EL_LIST, TEXT(truncated)},
    [EL_TOKEN] = {"NextContinuationToken", EL_LIST, TEXT(page.token)},
    [EL_ERROR] = {"Error", EL_OTHER},
    [EL_CODE] = {"Code", EL_ERROR, TEXT(error.code), true},
    [EL_MESSAGE] = {"Message", EL_ERROR, TEXT(error.message), true},
    [EL_REGION] = {"Region", EL_ERROR, TEXT(error.region), true},
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

static enum element element_of(enum element in, const char *name)
{
    for (size_t is = EL_LIST; is < sizeof(known) / sizeof(*known); is++)
        if (known[is].in == in && strcmp(known[is].name, name) == 0)
            return (enum element)is;
    return EL_OTHER;
}

static void XMLCALL on_start(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct walk *w = data;
    enum element is = element_of(w->depth ? w->path[w->depth - 1] : EL_OTHER, name);

    (void)attributes;
    if (w->failed) /* expat may call once more after XML_StopParser() */
        return;
    if (w->depth == DEPTH_MAX || (w->depth == 0 && is != w->root)) {
        fail(w);
        return;
    }
    /* These elements count only as the root of the document. */
    if (w->depth > 0 && (is == EL_LIST || is == EL_ERROR))
        is = EL_OTHER;
    w->path[w->depth++] = (unsigned char)is;
    w->reading = known[is].cap ? is : EL_OTHER;
    w->n = 0;
    if (is == EL_CONTENTS)
        w->seen &= ~(1u << EL_KEY | 1u << EL_MODIFIED);
}

static char *text_of(struct walk *w, enum element is)
{
    return (char *)w + known[is].at;
}

static void XMLCALL on_text(void *data, const XML_Char *s, int len)
{
    struct walk *w = data;
    size_t n = (size_t)len;

    if (w->failed || w->reading == EL_OTHER)
        return;
    pp_assert(w->n < known[w->reading].cap, "an element's text has grown beyond its room");
    size_t room = known[w->reading].cap - 1 - w->n;
    if (n > room && !known[w->reading].cut) {
        fail(w);
        return;
    }
    n = n < room ? n : room;
    memcpy(text_of(w, w->reading) + w->n, s, n);
    w->n += n;
}

/* Notes that the element has occurred. Returns false if it had occurred before. */
static bool is_first(struct walk *w, enum element is)
{
    bool first = !(w->seen & 1u << is);
    w->seen |= 1u << is;
    return first;
}

/* Handles the end of an element. Returns false if the document must be refused. */
static bool on_element(struct walk *w, enum element is)
{
    if (known[is].cap)
        text_of(w, is)[w->n] = '\0';
    switch (is) {
    case EL_CONTENTS:
        if (!(w->seen & 1u << EL_KEY) || !(w->seen & 1u << EL_MODIFIED))
            return false;
        w->fn(w->data, w->key, w->key_n, w->modified_ms);
        return true;
    case EL_KEY: w->key_n = w->n; return is_first(w, is);
    case EL_MODIFIED: return is_first(w, is) && pp_s3_time_parse(w->modified, w->n, &w->modified_ms);
    case EL_TRUNCATED:
        w->page.truncated = strcmp(w->truncated, "true") == 0;
        return is_first(w, is) && (w->page.truncated || strcmp(w->truncated, "false") == 0);
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
    w->reading = EL_OTHER;
}

static void XMLCALL on_doctype(void *data, const XML_Char *name, const XML_Char *sysid, const XML_Char *pubid,
                               int internal)
{
    (void)name, (void)sysid, (void)pubid, (void)internal;
    fail(data);
}

static bool walk_document(struct walk *w, const char *xml, size_t n)
{
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
    struct walk w = {.root = EL_LIST, .fn = fn, .data = data};
    bool ok = walk_document(&w, xml, n);

    *page = w.page;
    return ok && w.truncated[0] && (!page->truncated || page->token[0]);
}

/* --- errors --- */

static void make_printable(char *s)
{
    for (; *s; s++)
        if (*s < ' ' || *s > '~')
            *s = '?';
}

/* Empties a text that has characters other than letters, digits and hyphens. */
static void keep_word(char *s)
{
    if (s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")])
        *s = '\0';
}

bool pp_s3_error_parse(const char *xml, size_t n, struct pp_s3_error *e)
{
    struct walk w = {.root = EL_ERROR};
    bool ok = walk_document(&w, xml, n);

    *e = ok ? w.error : (struct pp_s3_error){0};
    keep_word(e->code);
    keep_word(e->region);
    make_printable(e->message);
    return ok;
}
