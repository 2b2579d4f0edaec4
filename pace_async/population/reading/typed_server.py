"""Which typed statements a server is given: those that read, and call nothing that acts.

A read-only transaction refuses what writes rows. It does not refuse COPY to a program, ending another session, a lock
that outlives the statement, or a file of the server's machine. So a statement begins with one of READS, and it calls no
function that the server marks as volatile, but for HARMLESS. Functions that run a text as SQL are volatile too.

The lexer follows PostgreSQL's own, with `standard_conforming_strings`. What it cannot follow is refused: a statement
hidden from it could be any other.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from sqlalchemy import Connection, text

from pace_async.errors import UsageError

READS = ("select", "with", "values", "table", "explain", "show")
HARMLESS = (
    *("random", "gen_random_uuid", "clock_timestamp", "timeofday"),
    *("pg_database_size", "pg_relation_size", "pg_table_size", "pg_indexes_size", "pg_total_relation_size"),
)
_TOKENS = re.compile(
    r"""(?P<space>\s+|--[^\r\n]*)
    |(?P<comment>/\*)
    |(?P<escaped>[eE]'|[uU]&['"])
    |(?P<string>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<dollar>\$(?P<tag>(?:[A-Za-z_\u0080-\U0010ffff][A-Za-z_0-9\u0080-\U0010ffff]*)?)\$.*?\$(?P=tag)\$)
    |(?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z_0-9$\u0080-\U0010ffff]*)
    |(?P<sign>[^'"])""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")


def refuse_unless_reading(connection: Connection, statement: str) -> None:
    """Raise UsageError, with the reason in lower case, unless the statement reads or is empty. Reads the
    server's catalogue."""
    tokens = list(_tokens(statement))
    first = next((name for name in tokens if name != "("), ";")
    if first not in READS and set(tokens) - {"(", ";"}:
        raise UsageError(f"{first} is not allowed here, only what reads")
    called = {name.strip('"').replace('""', '"') for name, after in pairwise(tokens) if after == "("}
    acting = connection.execute(_ACTING, {"called": sorted(called), "harmless": list(HARMLESS)}).scalars().first()
    if acting is not None:
        raise UsageError(f"{acting} is not allowed here, only what reads")


_ACTING = text(
    "SELECT p.proname FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace "
    "WHERE p.proname = ANY(CAST(:called AS text[])) AND p.proname <> ALL(CAST(:harmless AS text[])) "
    "AND (p.provolatile = 'v' OR n.nspname NOT IN ('pg_catalog', 'information_schema')) ORDER BY 1 LIMIT 1"
)


def _tokens(statement: str) -> Iterator[str]:
    """Words in lower case, quoted names, and single signs, without spaces, comments and the content of strings."""
    at = 0
    while at < len(statement):
        token = _TOKENS.match(statement, at)
        if token is None:
            raise UsageError("a quotation mark in it has no end")
        at = token.end()
        if token["comment"]:
            at = _end_of_comment(statement, at)
        elif token["escaped"]:
            raise UsageError("strings with escapes (E'', U&'') are not allowed here: chr(10) is a new line")
        elif token["string"] or token["dollar"]:
            yield "''"
        elif not token["space"]:
            yield token[0] if token["quoted"] else token[0].lower()


def _end_of_comment(statement: str, at: int) -> int:
    """Where a comment ends that began before `at`. Comments nest."""
    depth = 1
    while depth:
        edge = _COMMENT.search(statement, at)
        if edge is None:
            raise UsageError("a comment in it has no end")
        depth, at = depth + (1 if edge[0] == "/*" else -1), edge.end()
    return at
