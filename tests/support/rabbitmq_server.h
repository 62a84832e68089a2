/* rabbitmq_server.h: the RabbitMQ that a test program runs on, and what can happen to it.
 *
 * tests/support/rabbitmq runs it: a program that finds no $AMQP_URL starts itself again under that script. */
#ifndef PP_TEST_RABBITMQ_SERVER_H
#define PP_TEST_RABBITMQ_SERVER_H

#include <stdint.h>

/* First in main(): returns with a broker there, for as long as the program runs. `options` are lines of
 * rabbitmq.conf, NULL ends. */
void rabbitmq_server_start(char **argv, const char *const *options);

uint16_t rabbitmq_server_port(void);

/* "kill", "start", "restart", "stop", "cont"; or "ctl" and words for rabbitmqctl, NULL ends. Done when it
 * returns; fails the test where it can't be done. */
void rabbitmq_server_do(const char *what, ...) __attribute__((sentinel));

#endif
