/* value_map.c: reads the entries of lists whose entries are maps: tiers and keys. A table describes
 * the fields of each map, so that errors can name an unknown or missing field. Also reads the pairs
 * of a map of properties, whose names photopool does not know. */
#include "config/value.h"

#include "base/text.h"
#include "base/units.h"

#include <string.h>

#define PP_TIER_CONCURRENCY_DEFAULT 256
#define PP_TIER_CONCURRENCY_MAX     100000

/* A field of a map. `set` reads its value; it gets the text of a scalar, and NULL for a list. */
struct map_field {
    const char *name;
    bool required, list;
    pp_value_set_fn set;
};

static enum pp_err unknown_field(const struct pp_value *v, const yaml_node_t *node,
                                 const struct map_field *fields, size_t n, const char *name)
{
    /* in {name: a, X}, X is a name */
    if (v->param->flags & PP_PARAM_SECRET)
        return pp_value_fail(v, node, "a field has another name");
    for (size_t i = 0; i < n; i++)
        if (pp_edit_distance(name, fields[i].name) <= 2)
            return pp_value_fail(v, node, "no field is called \"%.60s\" (did you mean %s?)", name,
                                 fields[i].name);
    return pp_value_fail(v, node, "no field is called \"%.60s\"", name);
}

/* Reads one pair of name and value. `seen` has a bit for each field that was read. */
static enum pp_err set_pair(const struct pp_value *v, yaml_node_t *key, yaml_node_t *value,
                            const struct map_field *fields, size_t n, unsigned *seen, void *item)
{
    const char *name = pp_value_scalar(v, key);
    if (!name)
        return PP_EINVAL;
    size_t i = 0;
    while (i < n && strcmp(name, fields[i].name))
        i++;
    if (i == n)
        return unknown_field(v, key, fields, n, name);
    if (*seen & (1u << i))
        return pp_value_fail(v, key, "\"%s\" is given twice", name);
    *seen |= 1u << i;
    const char *s = fields[i].list ? NULL : pp_value_scalar(v, value);
    return s || fields[i].list ? fields[i].set(v, value, s, item) : PP_EINVAL;
}

static enum pp_err set_map(const struct pp_value *v, yaml_node_t *node, const struct map_field *fields,
                           size_t n, void *item)
{
    if (node->type != YAML_MAPPING_NODE)
        return pp_value_fail(v, node, "an entry that is not a map");
    unsigned seen = 0;
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
        enum pp_err e = set_pair(v, yaml_document_get_node(v->doc, p->key),
                                 yaml_document_get_node(v->doc, p->value), fields, n, &seen, item);
        if (e != PP_OK)
            return e;
    }
    for (size_t i = 0; i < n; i++)
        if (fields[i].required && !(seen & (1u << i)))
            return pp_value_fail(v, node, "an entry without \"%s\"", fields[i].name);
    return PP_OK;
}

static enum pp_err tier_timeout(const struct pp_value *v, yaml_node_t *node, const char *s, void *item)
{
    struct pp_config_tier *tier = item;
    if (pp_unit_parse(s, pp_units_duration, &tier->timeout_ms) != PP_OK)
        return pp_value_fail(v, node, "timeout: \"%.60s\" is not a duration, as 250ms or 5s", s);
    return pp_value_in_range(v, node, (double)tier->timeout_ms);
}

static enum pp_err tier_concurrency(const struct pp_value *v, yaml_node_t *node, const char *s, void *item)
{
    struct pp_config_tier *tier = item;
    if (pp_unit_parse(s, pp_units_count, &tier->concurrency) != PP_OK || tier->concurrency < 1 ||
        tier->concurrency > PP_TIER_CONCURRENCY_MAX)
        return pp_value_fail(v, node, "concurrency: \"%.60s\" is not a count from 1 to %dk", s,
                             PP_TIER_CONCURRENCY_MAX / 1000);
    return PP_OK;
}

enum pp_err pp_set_tier(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    static const struct map_field fields[] = {{"timeout", true, false, tier_timeout},
                                              {"concurrency", false, false, tier_concurrency}};
    struct pp_config_tier *tier = field;
    (void)s;
    tier->concurrency = PP_TIER_CONCURRENCY_DEFAULT;
    return set_map(v, node, fields, sizeof fields / sizeof fields[0], tier);
}

void pp_put_tier(const struct pp_put *put, const void *field)
{
    const struct pp_config_tier *tier = field;
    char timeout[40];
    pp_unit_format(tier->timeout_ms, pp_units_duration, timeout, sizeof timeout);
    fprintf(put->f,
            put->json ? "{\"timeout\": \"%s\", \"concurrency\": %lld}" : "{timeout: %s, concurrency: %lld}",
            timeout, (long long)tier->concurrency);
}

/* The messages about keys do not quote values, because an operator may have put the key itself
 * there by mistake. */

/* Reads a name or a client, which have only the characters of a client id. */
static enum pp_err key_word(const struct pp_value *v, yaml_node_t *node, const char *s, const char *what,
                            const char **out)
{
    if (!pp_client_valid(s, strlen(s)))
        return pp_value_fail(v, node, "%s: not 1 to 64 of A-Z a-z 0-9 _ -", what);
    *out = pp_arena_strdup(&v->cfg->arena, s);
    return *out ? PP_OK : PP_ENOMEM;
}

static enum pp_err key_name(const struct pp_value *v, yaml_node_t *node, const char *s, void *item)
{
    return key_word(v, node, s, "name", &((struct pp_config_key *)item)->name);
}

static enum pp_err key_client(const struct pp_value *v, yaml_node_t *node, const char *s, void *item)
{
    return key_word(v, node, s, "client", &((struct pp_config_key *)item)->client);
}

static enum pp_err key_sha256(const struct pp_value *v, yaml_node_t *node, const char *s, void *item)
{
    struct pp_config_key *key = item;
    if (pp_unhex(key->sha256, sizeof key->sha256, s, strlen(s)))
        return PP_OK;
    return pp_value_fail(v, node, "sha256: not 64 hex digits (make them with: printf %%s KEY | sha256sum)");
}

static const char *const scope_names[PP_SCOPE_COUNT] = {
#define X(id, name) name,
    PP_SCOPE_TABLE(X)
#undef X
};

/* Returns the bit of a scope's name, or 0 if no scope has this name. */
static unsigned scope_bit(const char *name)
{
    for (size_t i = 0; i < PP_SCOPE_COUNT; i++)
        if (strcmp(name, scope_names[i]) == 0)
            return 1u << i;
    return 0;
}

static enum pp_err key_scopes(const struct pp_value *v, yaml_node_t *node, const char *s, void *item)
{
    struct pp_config_key *key = item;
    if (node->type != YAML_SEQUENCE_NODE)
        return pp_value_fail(v, node, "scopes: not a list, as [submit, read]");
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
        yaml_node_t *scope = yaml_document_get_node(v->doc, *i);
        if (!(s = pp_value_scalar(v, scope)))
            return PP_EINVAL;
        if (!scope_bit(s))
            return pp_value_fail(v, scope, "scopes: one is none of submit, read, admin");
        key->scopes |= scope_bit(s);
    }
    return key->scopes ? PP_OK : pp_value_fail(v, node, "scopes: an empty list allows nothing");
}

enum pp_err pp_set_key(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    static const struct map_field fields[] = {{"name", true, false, key_name},
                                              {"sha256", true, false, key_sha256},
                                              {"scopes", true, true, key_scopes},
                                              {"client", false, false, key_client}};
    struct pp_config_key *key = field;
    (void)s;
    key->client = "";
    return set_map(v, node, fields, sizeof fields / sizeof fields[0], key);
}

void pp_put_key(const struct pp_put *put, const void *field)
{
    const struct pp_config_key *key = field;
    const char *q = put->json ? "\"" : "", *sep = "";
    struct pp_put quoted = *put;
    char hex[2 * sizeof key->sha256 + 1];
    /* JSON quotes make sure that a client "42", or a hash of digits only, is read back as text */
    quoted.json = true;
    /* A reader of the hash could try keys against it, so the hash is hidden like a password. */
    if (put->secrets)
        pp_hex(hex, key->sha256, sizeof key->sha256);
    else
        snprintf(hex, sizeof hex, "***");
    fprintf(put->f, "{%sname%s: ", q, q);
    pp_put_text(&quoted, key->name);
    fprintf(put->f, ", %ssha256%s: \"%s\", %sscopes%s: [", q, q, hex, q, q);
    for (size_t i = 0; i < PP_SCOPE_COUNT; i++) {
        if (!(key->scopes & (1u << i)))
            continue;
        fprintf(put->f, "%s%s%s%s", sep, q, scope_names[i], q);
        sep = ", ";
    }
    fputc(']', put->f);
    if (*key->client) {
        fprintf(put->f, ", %sclient%s: ", q, q);
        pp_put_text(&quoted, key->client);
    }
    fputc('}', put->f);
}

/* --- properties --- */

/* Returns true if the text may be the name of a property. Another text may be a password in the
 * wrong place, so messages do not quote it. */
static bool is_property_name(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n <= 100 &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* Returns the value's text, or NULL if it is none. It may have several lines, as a certificate in
 * PEM has. */
static const char *property_value(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE)
        return NULL;
    const char *s = (const char *)node->data.scalar.value;
    bool good = pp_utf8_valid(s, node->data.scalar.length);
    for (size_t i = 0; good && i < node->data.scalar.length; i++)
        good = ((unsigned char)s[i] >= ' ' && s[i] != 0x7f) || s[i] == '\n' || s[i] == '\t';
    return good ? s : NULL;
}

enum pp_err pp_set_property(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    struct pp_config_property *property = field;
    const struct pp_config_properties *all =
        (const struct pp_config_properties *)((const char *)v->cfg + v->param->offset);
    const char *value = property_value(node);
    if (!is_property_name(s))
        return pp_value_fail(v, node, "the name of a property is not 1 to 100 of A-Z a-z 0-9 . _ -");
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->item[i].name, s) == 0)
            return pp_value_fail(v, node, "\"%s\" is given twice", s);
    if (!value)
        return pp_value_fail(v, node, "the value of \"%s\" is not a text", s);
    property->name = pp_arena_strdup(&v->cfg->arena, s);
    property->value = pp_arena_strdup(&v->cfg->arena, value);
    return property->name && property->value ? PP_OK : PP_ENOMEM;
}

void pp_put_property(const struct pp_put *put, const void *field)
{
    const struct pp_config_property *property = field;
    bool hidden = !put->secrets && pp_is_secret_name(property->name, strlen(property->name));
    struct pp_put quoted = *put;
    pp_put_text(put, property->name);
    fputs(": ", put->f);
    /* in quotes, so that "true" and "5000" are read back as texts */
    quoted.json = true;
    pp_put_text(&quoted, hidden ? "***" : property->value);
}
