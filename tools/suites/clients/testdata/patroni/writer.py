"""Writes to one PostgreSQL until its input ends, and prints each acknowledged write: number and time in ns.

It tries again whenever the server is away or a standby. A write of unknown outcome is not printed, and its number is not
used again.
"""

import sys
import threading
import time

import psycopg

port, first = int(sys.argv[1]), int(sys.argv[2])
ended = threading.Event()


def wait_for_end():
    sys.stdin.read()
    ended.set()


def write(n):
    """Writes numbers from n on until one fails. Returns the next one."""
    try:
        with psycopg.connect(
            host='127.0.0.1', port=port, user='postgres', dbname='postgres', autocommit=True, connect_timeout=2,
        ) as connection:
            while not ended.is_set():
                n += 1
                connection.execute('insert into written values (%s)', (n,))
                print(n, time.monotonic_ns(), flush=True)
    except psycopg.Error:
        ended.wait(0.05)
    return n


threading.Thread(target=wait_for_end, daemon=True).start()
while not ended.is_set():
    first = write(first)
