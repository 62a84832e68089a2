/* cluster.c: a program that runs librdkafka's mock cluster of Kafka in memory.
 *
 *   cluster TOPIC PARTITIONS     makes the topic, prints the addresses of its brokers, and
 *                                ends when its standard input ends
 *
 * A partition keeps only its last 5 MB, so a consumer that wants everything must read while the
 * test sends. The messages end with the process. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>

#define BROKERS 3

int main(int argc, char **argv)
{
    char error[256];
    if (argc != 3) {
        fprintf(stderr, "usage: cluster TOPIC PARTITIONS\n");
        return 2;
    }
    rd_kafka_t *owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), error, sizeof error);
    rd_kafka_mock_cluster_t *cluster = owner ? rd_kafka_mock_cluster_new(owner, BROKERS) : NULL;
    if (!cluster || rd_kafka_mock_topic_create(cluster, argv[1], (int)strtol(argv[2], NULL, 10), 1)) {
        fprintf(stderr, "cluster: %s\n", owner ? "it could not be made" : error);
        return 1;
    }
    printf("%s\n", rd_kafka_mock_cluster_bootstraps(cluster));
    fflush(stdout);
    while (getchar() != EOF) {
    }
    rd_kafka_mock_cluster_destroy(cluster);
    rd_kafka_destroy(owner);
    return 0;
}
