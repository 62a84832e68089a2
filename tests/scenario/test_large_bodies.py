#!/usr/bin/env python3
# scenario: build=release timeout=60
"""The memory for all bodies follows http.max_body: a body of 140 MiB, which gzip makes small, is
accepted if http.max_body permits it.
"""
import gzip

from harness import Pool, same, scenario

SPACES = 140 << 20


def a_large_body(case):
    pool = Pool(case, config={"http.max_body": "512MiB"}).start()
    body = b'{"client":"c","items":[{"id":"a","photos":[]}]' + b" " * SPACES + b"}"
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    answer = pool.request("POST", "/v1/batches", gzip.compress(body, 1), headers)
    same(answer.status, 202, f"a body of 140 MiB: {answer}")
    pool.stop()


if __name__ == "__main__":
    scenario(a_large_body)
