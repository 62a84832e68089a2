/* code.h: the reasons why a photo could not be fetched, in one table. Results, /v1/errors, retries
 * and statistics use it.
 *
 * A code is a uint16_t: 0 is no failure, 1..PP_CODE_COUNT-1 a row of PP_CODE_TABLE, 400..599 the
 * HTTP status of the host's answer (http_404, http_503). To add a failure, add a row at the end:
 * stores keep the numbers.
 *
 * Columns: identifier, name in the API, retry class, whose fault, and the message for the merchant
 * in English and in Russian.
 * Retry classes:
 *   FINAL    the same request would fail again: no retry in this import
 *   RETRY    photopool retries in the same tier, after a random growing delay (full jitter)
 *   PROMOTE  a timeout: photopool retries in the next tier at once; in the last tier it is final
 *   WAIT     the host limits requests (429, 503): photopool retries no sooner than Retry-After */
#ifndef PHOTOPOOL_CODE_H
#define PHOTOPOOL_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pp_retry_class { PP_FINAL, PP_RETRY, PP_PROMOTE, PP_WAIT };
enum pp_fault { PP_FAULT_MERCHANT, PP_FAULT_HOST, PP_FAULT_POLICY, PP_FAULT_PHOTOPOOL };
enum pp_language { PP_ENGLISH, PP_RUSSIAN, PP_LANGUAGES };

#define PP_CODE_TABLE(X)                                                                                    \
    X(NONE, "", FINAL, PHOTOPOOL, "", "")                                                                   \
    X(DNS_NOT_FOUND, "dns_not_found", FINAL, MERCHANT, "The host name does not exist. Check its spelling.", \
      "Такого имени сервера нет. Проверьте его написание.")                                                 \
    X(DNS_TEMPORARY, "dns_temporary", RETRY, HOST, "The host name could not be looked up. We tried again.", \
      "Не удалось узнать адрес сервера. Мы попробовали ещё раз.")                                           \
    X(CONNECT_REFUSED, "connect_refused", RETRY, HOST,                                                      \
      "The host refused the connection. Is its web server running?",                                        \
      "Сервер отклонил соединение. Работает ли он?")                                                        \
    X(CONNECT_TIMEOUT, "connect_timeout", PROMOTE, HOST, "The host did not accept a connection in time.",   \
      "Сервер не принял соединение вовремя.")                                                               \
    X(TLS_FAILED, "tls_failed", FINAL, HOST, "The host's certificate is not valid. Renew or correct it.",   \
      "Сертификат сервера недействителен. Обновите или исправьте его.")                                     \
    X(FIRST_BYTE_TIMEOUT, "first_byte_timeout", PROMOTE, HOST,                                              \
      "The host accepted the request and then sent nothing.", "Сервер принял запрос и ничего не ответил.")  \
    X(BODY_TIMEOUT, "body_timeout", PROMOTE, HOST, "The host did not send the whole photo in time.",        \
      "Сервер не успел передать фотографию целиком.")                                                       \
    X(TOO_SLOW, "too_slow", PROMOTE, HOST, "The host sent the photo too slowly.",                           \
      "Сервер передавал фотографию слишком медленно.")                                                      \
    X(CONNECTION_LOST, "connection_lost", RETRY, HOST,                                                      \
      "The connection broke before the photo was complete.", "Соединение прервалось до конца фотографии.")  \
    X(TRUNCATED, "truncated", RETRY, HOST,                                                                  \
      "The photo ended before its announced length, or without the end of its file.",                       \
      "Фотография закончилась раньше указанной длины или без конца файла.")                                 \
    X(BAD_RESPONSE, "bad_response", FINAL, HOST,                                                            \
      "The host's answer is not a correct HTTP answer with a photo.",                                       \
      "Ответ сервера не является правильным ответом HTTP с фотографией.")                                   \
    X(HEADER_TOO_LARGE, "header_too_large", FINAL, HOST,                                                    \
      "The host's answer has more header than we accept.",                                                  \
      "Заголовки ответа сервера больше, чем мы принимаем.")                                                 \
    X(TOO_LARGE, "too_large", FINAL, MERCHANT, "The photo is larger than the limit. Make it smaller.",      \
      "Файл фотографии больше допустимого. Уменьшите его.")                                                 \
    X(NOT_IMAGE, "not_image", FINAL, MERCHANT, "What the host sent is not a photo of an accepted type.",    \
      "Сервер прислал не фотографию принимаемого формата.")                                                 \
    X(IMAGE_CORRUPT, "image_corrupt", FINAL, MERCHANT, "The photo's file is damaged. Save it again.",       \
      "Файл фотографии повреждён. Сохраните его заново.")                                                   \
    X(TOO_MANY_PIXELS, "too_many_pixels", FINAL, MERCHANT,                                                  \
      "The photo has more pixels than the limit. Scale it down.",                                           \
      "В фотографии больше пикселей, чем допустимо. Уменьшите её.")                                         \
    X(DENIED_ADDRESS, "denied_address", FINAL, POLICY, "The host's address is not a public one.",           \
      "Адрес сервера не является публичным.")                                                               \
    X(DENIED_SCHEME, "denied_scheme", FINAL, POLICY, "Only http and https addresses are fetched.",          \
      "Мы загружаем только адреса http и https.")                                                           \
    X(DENIED_PORT, "denied_port", FINAL, POLICY, "The URL names a port that we do not connect to.",         \
      "В адресе указан порт, к которому мы не подключаемся.")                                               \
    X(BAD_URL, "bad_url", FINAL, MERCHANT, "The URL is not written correctly.",                             \
      "Адрес фотографии написан неправильно.")                                                              \
    X(REDIRECT_LIMIT, "redirect_limit", FINAL, HOST,                                                        \
      "The URL leads from one redirect to the next without an end.",                                        \
      "Адрес ведёт от одного перенаправления к другому без конца.")                                         \
    X(REDIRECT_DENIED, "redirect_denied", FINAL, POLICY,                                                    \
      "The URL redirects to a place that we do not fetch from.",                                            \
      "Адрес перенаправляет туда, откуда мы не загружаем.")                                                 \
    X(HOST_DOWN, "host_down", RETRY, HOST, "The host has failed so often that we pause requests to it.",    \
      "Сервер так часто отвечал ошибками, что мы приостановили запросы к нему.")                            \
    X(QUARANTINED, "quarantined", FINAL, PHOTOPOOL,                                                         \
      "This photo was set aside because fetching it failed in our software.",                               \
      "Фотография отложена: при её загрузке произошла ошибка в нашей программе.")                           \
    X(INTERNAL, "internal", RETRY, PHOTOPOOL, "Something went wrong on our side.",                          \
      "Ошибка на нашей стороне.")                                                                           \
    X(TOO_SMALL, "too_small", FINAL, MERCHANT, "The photo is smaller than the limit. Use a larger one.",    \
      "Фотография меньше допустимого. Возьмите фотографию большего размера.")

enum {
#define X(id, name, retry, fault, en, ru) PP_CODE_##id,
    PP_CODE_TABLE(X)
#undef X
        PP_CODE_COUNT
};

struct pp_code_info {
    const char *name;
    enum pp_retry_class retry;
    enum pp_fault fault;
    const char *message[PP_LANGUAGES]; /* the sentence for the merchant */
};

/* Returns the row of a code: never NULL, static. The HTTP statuses share the rows "http_4xx" and
 * "http_5xx": 408, 425 and 5xx have the class RETRY; 429 and 503 have WAIT; other 4xx have FINAL.
 * An unknown number has the row of `internal`. */
const struct pp_code_info *pp_code_info(uint16_t code);

/* Size of the longest name with its NUL, in bytes. */
#define PP_CODE_NAME_MAX 24

/* Writes the API name of `code` into buf and returns buf: "http_404", "body_timeout", or "" for
 * 0. */
const char *pp_code_name(uint16_t code, char buf[PP_CODE_NAME_MAX]);

/* Returns the code that has this API name of n bytes (404 for "http_404"), or 0 if there is
 * none. */
uint16_t pp_code_parse(const char *name, size_t n);

/* Classes of codes: lists and replays take them in the place of a code. */
enum { PP_CODE_HTTP_4XX = 1400, PP_CODE_HTTP_5XX = 1500 };

/* Returns the code, or the class "http_4xx" or "http_5xx", that has this name of n bytes, or 0 if
 * there is none. */
uint16_t pp_code_parse_class(const char *name, size_t n);

struct pp_code_span {
    uint16_t first, last;
};

/* Returns the codes of a class. The span of a code is the code itself. */
static inline struct pp_code_span pp_code_span(uint16_t class)
{
    bool is_class = class == PP_CODE_HTTP_4XX || class == PP_CODE_HTTP_5XX;
    uint16_t first = is_class ? (uint16_t)(class - 1000) : class;
    return (struct pp_code_span){first, is_class ? (uint16_t)(first + 99) : first};
}

/* Returns true if the code is this code, or is in this class. */
static inline bool pp_code_in(uint16_t code, uint16_t class)
{
    struct pp_code_span span = pp_code_span(class);
    return span.first <= code && code <= span.last;
}

/* Returns the message of a code in English, which details and logs use. Static. */
const char *pp_code_text(uint16_t code);

/* Returns whose fault a failure is: "merchant", "host", "policy" or "photopool". Static. */
const char *pp_fault_name(enum pp_fault fault);

/* Returns the language with this name of n bytes, in any case, or -1. */
int pp_language_parse(const char *name, size_t n);

#endif
