"""Runs an SQL command at the PostgreSQL that takes writes, and prints the rows."""

import sys

import psycopg

with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    cursor = connection.execute(sys.argv[2])
    for row in cursor.fetchall() if cursor.description else []:
        print(*row)
