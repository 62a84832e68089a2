/* Tests templates of MongoDB commands: how values replace the placeholders ("holes") of a template,
 * and which parts of the command disappear if a value is absent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "adapter/mongo/template.h"
#include "photopool/task.h"

enum { TEXT_MAX = 512 };

/* Fills the template's update; returns it as JSON with single quotes. */
static void filled(char out[TEXT_MAX], const char *text, const char *types, ...)
{
    const char *const texts[PP_MG_PARTS] = {"", text, ""};
    struct pp_mg_template t;
    struct pp_mg_filled f;
    va_list values;
    pp_mg_template_compile(&t, texts);
    va_start(values, types);
    pp_mg_template_fill(&t, types, values, &f);
    va_end(values);
    char *json = bson_as_relaxed_extended_json(&f.part[PP_MG_CHANGE], NULL);
    size_t n = strlen(json);
    assert_true(n < TEXT_MAX);
    for (size_t i = 0; i <= n; i++)
        out[i] = json[i] == '"' ? '\'' : json[i];
    bson_free(json);
    pp_mg_filled_free(&f);
    pp_mg_template_free(&t);
}

#define EXPECT(expected, ...)               \
    do {                                    \
        char got[TEXT_MAX];                 \
        filled(got, __VA_ARGS__);           \
        assert_string_equal(got, expected); \
    } while (0)

static void values_stand_in_their_holes(void **state)
{
    (void)state;
    const int64_t seven = 7, list[] = {1, 2};
    const bool no = false;
    const char *const texts[] = {"x", "x", "y"};
    EXPECT("{ 'a' : 'x', 'b' : 7, 'c' : 8 }", "{'a': '?a:s', 'b': '?b:i', 'c': '?c:d'}", "sid", "x",
           (int64_t)7, 8);
    EXPECT("{ 'a' : 0.5, 'b' : true, 'c' : false }", "{'a': '?a:f', 'b': '?b:b', 'c': '?c:e'}", "fbe", 0.5, 1,
           &no);
    EXPECT("{ 'a' : true, 'b' : null, 'c' : 7 }", "{'a': '?a:y', 'b': '?b:n', 'c': '?c:I'}", "ynI", 1, 1,
           &seven);
    EXPECT("{ 'a' : [ 1, 2 ], 'b' : [ 'x', 'y' ] }", "{'a': '?a:L', 'b': '?b:S'}", "LS", PP_MG_LIST(list, 2),
           PP_MG_LIST(texts, 3));
    EXPECT("{ 'a' : [  ] }", "{'a': '?a:L'}", "L", PP_MG_LIST(list, 0));
    EXPECT("{ 'in' : { 'a' : [ { '$b' : 'x' }, 1, 'x' ] } }", "{'in': {'a': [{'$b': '?a:s'}, 1, '?a:s']}}",
           "s", "x");
}

static void bytes_that_are_no_text_are_binary(void **state)
{
    (void)state;
    EXPECT("{ 'a' : { '$binary' : { 'base64' : '/w==', 'subType' : '00' } } }", "{'a': '?a:s'}", "s", "\xff");
    EXPECT("{ 'a' : { '$binary' : { 'base64' : 'AAE=', 'subType' : '00' } } }", "{'a': '?a:B'}", "B", "\0\1",
           (size_t)2);
}

static void an_absent_value_takes_its_document_with_it(void **state)
{
    (void)state;
    const int64_t seven = 7;
    const char *text = "{'a': {'$gt': '?a:s?', '$lt': '?b:I'}, 'b': 1, 'c': {'d': {'e': '?c:y'}}}";
    EXPECT("{ 'b' : 1 }", text, "sIy", NULL, NULL, 0);
    EXPECT("{ 'a' : { '$lt' : 7 }, 'b' : 1 }", text, "sIy", NULL, &seven, 0);
    EXPECT("{ 'a' : { '$gt' : 'x' }, 'b' : 1, 'c' : { 'd' : { 'e' : true } } }", text, "sIy", "x", NULL, 1);
    EXPECT("{ 'a' : [ 1, 7 ] }", "{'a': ['?a:s?', 1, '?b:i']}", "si", NULL, seven);
    const struct pp_object none = {.type = 0};
    EXPECT("{ 'k' : { 'k' : 5 } }", "{'o': '?o:O', 'k': '?k:X'}", "OX", &none,
           &(const struct pp_outcome){.kind = PP_OUTCOME_CANCELLED});
}

static void a_part_may_be_one_hole_or_have_none(void **state)
{
    (void)state;
    bson_t list = BSON_INITIALIZER;
    BSON_APPEND_INT32(&list, "0", 3);
    EXPECT("{ '0' : 3 }", "'?list:A'", "A", &list);
    EXPECT("{ 'a' : { 'b' : 1 } }", "{'a': {'b': 1}}", "");
    bson_destroy(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_stand_in_their_holes),
        cmocka_unit_test(bytes_that_are_no_text_are_binary),
        cmocka_unit_test(an_absent_value_takes_its_document_with_it),
        cmocka_unit_test(a_part_may_be_one_hole_or_have_none),
    };
    return cmocka_run_group_tests_name("MongoDB's templates", tests, NULL, NULL);
}
