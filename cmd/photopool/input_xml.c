/* input_xml.c: reads the feeds that merchants have in XML, by expat:
 *
 *   Yandex Market (YML)  <yml_catalog>..<offer id="1"><picture>URL</picture>..
 *   Google Merchant      <rss>..<item><g:id>1</g:id><g:image_link>URL</g:image_link>..
 *                        <feed><entry><g:id>.. as above (Atom)
 *   Avito Autoload       <Ads><Ad><Id>1</Id><Images><Image url="URL"/>..
 *
 * To add a feed: add a row to `feeds`. Only one record is in memory at a time. A record that has no
 * id, or is too large, is left out and named. A document that is not well-formed, is too deep or
 * declares entities can't be read further; its records before that place have been handed on. */
#include "input.h"

#include <expat.h>
#include <iconv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "format/json_out.h"

#define GOOGLE "http://base.google.com/ns/1.0"

enum { FEED_DEPTH_MAX = 64, BETWEEN = ' ' /* a namespace and a name in what expat calls a name */ };

/* A kind of feed. Names are without a namespace. */
struct feed {
    const char *root, *record;
    const char *space;        /* namespace of the id and photos; NULL: any, or none */
    const char *id, *id_attr; /* element or attribute of the record with its id; the other is NULL */
    const char *photos[2];    /* elements with a photo: in their text, or */
    const char *photo_attr;   /* in this attribute, if it is not NULL */
};

static const struct feed feeds[] = {
    {"yml_catalog", "offer", .id_attr = "id", .photos = {"picture"}},
    {"rss", "item", GOOGLE, .id = "id", .photos = {"image_link", "additional_image_link"}},
    {"feed", "entry", GOOGLE, .id = "id", .photos = {"image_link", "additional_image_link"}},
    {"Ads", "Ad", .id = "Id", .photos = {"Image"}, .photo_attr = "url"},
};

struct xml {
    const struct pp_input_sink *sink;
    char *error;
    XML_Parser parser;
    enum pp_err err;
    const struct feed *feed; /* NULL before the root element */
    int depth;               /* number of open elements */
    int record;              /* depth of the open record; 0: none */
    uint64_t line;           /* where the record begins */
    int reading;             /* depth of the open element whose text is gathered; 0: none */
    bool is_id;              /* it is the id, not a photo */
    struct pp_buf text, id, photos;
    bool has_id;
    char why[PP_INPUT_ERROR]; /* why this record can't be read; "" if it can */
};

/* --- errors --- */

static void fail(struct xml *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ends the reading. */
static void fail(struct xml *s, const char *fmt, ...)
{
    if (s->err != PP_OK)
        return;
    s->err = PP_EINVAL;
    int n =
        snprintf(s->error, PP_INPUT_ERROR, "line %lu: ", (unsigned long)XML_GetCurrentLineNumber(s->parser));
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->error + n, PP_INPUT_ERROR - (size_t)n, fmt, ap);
    va_end(ap);
    XML_StopParser(s->parser, XML_FALSE);
}

static void broken(struct xml *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Notes why this record can't be read, unless an earlier reason is noted. */
static void broken(struct xml *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!*s->why)
        vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
}

/* --- names --- */

/* Returns the name without its namespace. */
static const char *local(const char *name)
{
    const char *last = strrchr(name, BETWEEN);
    return last ? last + 1 : name;
}

static bool is_element(const struct feed *f, const char *name, const char *wanted)
{
    if (!wanted || strcmp(local(name), wanted) != 0)
        return false;
    return !f->space || strncmp(name, f->space, strlen(f->space)) == 0;
}

static const char *attribute_of(const char **attributes, const char *name)
{
    for (size_t i = 0; attributes[i]; i += 2)
        if (strcmp(attributes[i], name) == 0)
            return attributes[i + 1];
    return NULL;
}

/* --- records --- */

static void set_id(struct xml *s, const char *p, size_t n)
{
    if (s->has_id)
        return;
    s->has_id = true;
    pp_json_strn(&s->id, NULL, p, n);
}

static void begin_record(struct xml *s, const char **attributes)
{
    const struct feed *f = s->feed;
    const char *id = f->id_attr ? attribute_of(attributes, f->id_attr) : NULL;

    s->record = s->depth;
    s->line = XML_GetCurrentLineNumber(s->parser);
    s->has_id = false;
    *s->why = '\0';
    pp_buf_reset(&s->id);
    pp_buf_reset(&s->photos);
    if (id)
        set_id(s, id, strlen(id));
}

static void end_record(struct xml *s)
{
    const struct feed *f = s->feed;
    struct pp_buf *out = &s->text;

    s->record = 0;
    if (!s->has_id)
        broken(s, "<%s> has no %s %s", f->record, f->id_attr ? "attribute" : "element",
               f->id_attr ? f->id_attr : f->id);
    pp_buf_reset(out);
    pp_json_begin(out, NULL, '{');
    pp_json_raw(out, "id", s->id.p, s->id.n);
    pp_json_begin(out, "photos", '[');
    pp_buf_put(out, s->photos.p, s->photos.n);
    pp_json_end(out, ']');
    pp_json_end(out, '}');
    if (s->id.failed || s->photos.failed || out->failed)
        broken(s, "<%s> has more than %d MiB of URLs", f->record, PP_INPUT_ITEM_MAX >> 20);
    if (*s->why)
        s->sink->broken(s->sink->arg, s->line, s->why);
    else
        s->err = s->sink->item(s->sink->arg, out->p, out->n, s->line);
    pp_buf_reset(out);
    if (s->err != PP_OK)
        XML_StopParser(s->parser, XML_FALSE);
}

static void on_text(void *data, const XML_Char *p, int n)
{
    struct xml *s = data;

    if (s->err == PP_OK)
        pp_buf_put(&s->text, p, (size_t)n);
}

/* Gathers the text of the element that begins. Only then expat calls for texts, to save time. */
static void gather(struct xml *s, bool is_id)
{
    s->reading = s->depth;
    s->is_id = is_id;
    pp_buf_reset(&s->text);
    XML_SetCharacterDataHandler(s->parser, on_text);
}

static void begin_member(struct xml *s, const char *name, const char **attributes)
{
    const struct feed *f = s->feed;
    const char *url = f->photo_attr ? attribute_of(attributes, f->photo_attr) : NULL;

    if (is_element(f, name, f->id)) {
        gather(s, true);
        return;
    }
    for (size_t i = 0; i < sizeof f->photos / sizeof *f->photos; i++) {
        if (!is_element(f, name, f->photos[i]))
            continue;
        if (!f->photo_attr)
            gather(s, false);
        else if (url)
            pp_input_put_urls(&s->photos, url, strlen(url));
    }
}

/* Takes the text of an element, without the blanks around it: feeds are pretty-printed. */
static void end_member(struct xml *s)
{
    const char *p = s->text.p ? s->text.p : "";
    size_t n = s->text.n;

    s->reading = 0;
    XML_SetCharacterDataHandler(s->parser, NULL);
    if (n > PP_INPUT_VALUE_MAX || s->text.failed)
        broken(s, "a text of more than %d KiB", PP_INPUT_VALUE_MAX >> 10);
    p = pp_input_trim(p, &n);
    if (s->is_id && n > 0)
        set_id(s, p, n);
    else if (!s->is_id && n > 0)
        pp_input_put_urls(&s->photos, p, n);
}

/* --- the document --- */

static void begin_document(struct xml *s, const char *name)
{
    for (size_t i = 0; i < sizeof feeds / sizeof *feeds; i++)
        if (strcmp(local(name), feeds[i].root) == 0)
            s->feed = &feeds[i];
    if (!s->feed)
        fail(s,
             "the root element is <%.60s>; known are <yml_catalog> (Yandex Market), <rss> and <feed> (Google "
             "Merchant) and <Ads> (Avito)",
             local(name));
}

static void on_begin(void *data, const XML_Char *name, const XML_Char **attributes)
{
    struct xml *s = data;

    if (s->err != PP_OK) /* expat may call once more after XML_StopParser() */
        return;
    if (++s->depth > FEED_DEPTH_MAX)
        fail(s, "more than %d elements inside each other", FEED_DEPTH_MAX);
    else if (s->depth == 1)
        begin_document(s, name);
    else if (!s->record && strcmp(local(name), s->feed->record) == 0)
        begin_record(s, attributes);
    else if (s->record && !s->reading)
        begin_member(s, name, attributes);
}

static void on_end(void *data, const XML_Char *name)
{
    struct xml *s = data;

    (void)name;
    if (s->err != PP_OK)
        return;
    if (s->reading == s->depth)
        end_member(s);
    else if (s->record == s->depth)
        end_record(s);
    s->depth--;
}

static void on_entity(void *data, const XML_Char *name, int is_parameter, const XML_Char *value, int n,
                      const XML_Char *base, const XML_Char *system_id, const XML_Char *public_id,
                      const XML_Char *notation)
{
    (void)is_parameter, (void)value, (void)n, (void)base, (void)system_id, (void)public_id, (void)notation;
    fail(data, "it declares the entity %.60s; only those of XML itself (&amp; and the like) are read", name);
}

/* Fills expat's table for an encoding of one byte a character, such as windows-1251, by iconv. */
static int on_encoding(void *data, const XML_Char *name, XML_Encoding *out)
{
    iconv_t to = iconv_open("UCS-4LE", name);

    (void)data;
    if (to == (iconv_t)-1)
        return XML_STATUS_ERROR;
    for (int i = 0; i < 256; i++) {
        char byte = (char)i, *from = &byte;
        unsigned char code[4] = {0};
        char *at = (char *)code;
        size_t left = 1, room = sizeof code;
        bool is = iconv(to, &from, &left, &at, &room) != (size_t)-1 && room == 0;
        out->map[i] = is ? code[0] | code[1] << 8 | code[2] << 16 : -1;
        iconv(to, NULL, NULL, NULL, NULL);
    }
    iconv_close(to);
    out->data = NULL;
    out->convert = NULL;
    out->release = NULL;
    return XML_STATUS_OK;
}

static void *xml_open(const struct pp_input_sink *sink, char *error)
{
    struct xml *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    *s = (struct xml){.sink = sink, .error = error, .parser = XML_ParserCreateNS(NULL, BETWEEN)};
    if (!s->parser) {
        free(s);
        return NULL;
    }
    pp_buf_init(&s->text, PP_INPUT_ITEM_MAX);
    pp_buf_init(&s->id, PP_INPUT_ITEM_MAX);
    pp_buf_init(&s->photos, PP_INPUT_ITEM_MAX);
    XML_SetUserData(s->parser, s);
    XML_SetElementHandler(s->parser, on_begin, on_end);
    XML_SetEntityDeclHandler(s->parser, on_entity);
    XML_SetUnknownEncodingHandler(s->parser, on_encoding, s);
    return s;
}

static enum pp_err parse(struct xml *s, const char *p, size_t n, bool last)
{
    bool ok = XML_Parse(s->parser, p, (int)n, last) == XML_STATUS_OK;

    if (!ok && s->err == PP_OK)
        fail(s, "%s", XML_ErrorString(XML_GetErrorCode(s->parser)));
    return s->err;
}

static enum pp_err xml_feed(void *state, const char *p, size_t n)
{
    return parse(state, p, n, false);
}

static enum pp_err xml_end(void *state)
{
    return parse(state, "", 0, true);
}

static void xml_close(void *state)
{
    struct xml *s = state;

    XML_ParserFree(s->parser);
    pp_buf_fini(&s->text);
    pp_buf_fini(&s->id);
    pp_buf_fini(&s->photos);
    free(s);
}

const struct pp_input_format pp_input_xml = {"xml", xml_open, xml_feed, xml_end, xml_close};
