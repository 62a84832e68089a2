/* rabbitmq_server.h: the RabbitMQ of a test program, and its faults.
 *
 * The script tests/support/rabbitmq starts the broker. A program without $AMQP_URL restarts
 * itself under that script. */
#ifndef PP_TEST_RABBITMQ_SERVER_H
#define PP_TEST_RABBITMQ_SERVER_H

#include <stdint.h>

/* If $AMQP_URL is not set, starts the program again under tests/support/rabbitmq, which runs a
 * broker as long as the program. Call it first in main(). `options` are lines of rabbitmq.conf;
 * NULL ends them. */
void rabbitmq_server_start(char **argv, const char *const *options);

uint16_t rabbitmq_server_port(void);

/* Applies a fault: "kill", "start", "restart", "stop" or "cont"; or runs rabbitmqctl with the
 * arguments after "ctl", which end with NULL. Returns when it has taken effect; fails the test
 * if it is impossible. */
void rabbitmq_server_do(const char *what, ...) __attribute__((sentinel));

#endif
