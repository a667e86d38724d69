"""The tables of the Postgres journal, how they are created, and how older ones are brought up to date.

A schema is ours if it has our table of versions; its version is the number of migrations it has seen. The tables are spelled here,
in `postgres_functions.py` and in the queries of `postgres.py`. `{s}` stands for the schema's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import JournalError
from holdfast.journal.postgres_functions import FUNCTIONS_1

SCHEMA = "holdfast"
"""What the schema is called unless the address says otherwise."""
CHANGED_MEANWHILE = "HF001"
"""The error code for a schema that another process has just brought up to date."""

SchemaChange = tuple[str, ...]

MIGRATIONS: tuple[SchemaChange, ...] = (
    (
        "CREATE TABLE {s}.journal_versions (version bigint PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())",
        # A repository has one journal without a name. A draft and those that were replaced have one.
        """CREATE TABLE {s}.journals (key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, repository text NOT NULL,
             name text NOT NULL, UNIQUE (repository, name))""",
        """CREATE TABLE {s}.plans (journal bigint NOT NULL, hash text NOT NULL, body bytea NOT NULL,
             PRIMARY KEY (journal, hash))""",
        """CREATE TABLE {s}.confirmed_plans (journal bigint NOT NULL, hash text NOT NULL, at float8 NOT NULL,
             PRIMARY KEY (journal, hash))""",
        # Every append changes the row of its run: half a page is left free, so that no index changes with it.
        """CREATE TABLE {s}.runs (key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, journal bigint NOT NULL,
             run text NOT NULL, epoch bigint NOT NULL, fence text NOT NULL DEFAULT '', last_seq bigint NOT NULL,
             digest bytea, plan_hash text NOT NULL, first_plan text NOT NULL, started_at float8 NOT NULL,
             updated_at float8 NOT NULL, holder bytea, holder_lock text NOT NULL DEFAULT '',
             held_until timestamptz NOT NULL DEFAULT '-infinity', row bytea NOT NULL, UNIQUE (journal, run))
             WITH (fillfactor = 50)""",
        # A task's place is that in the plan. Events of one append are one row, under the number of the first of them.
        """CREATE TABLE {s}.tasks (run bigint NOT NULL, place bigint NOT NULL, row bytea NOT NULL,
             PRIMARY KEY (run, place)) WITH (fillfactor = 70)""",
        """CREATE TABLE {s}.events (run bigint NOT NULL, first bigint NOT NULL, at float8 NOT NULL, body bytea NOT NULL,
             PRIMARY KEY (run, first))""",
        *FUNCTIONS_1,
    ),
)
"""Applied in order, never edited: a change is a new entry."""

# A name without a schema can be that of another user's function, if its types fit better: `count` takes any type.
RELATIONS = """SELECT coalesce(bool_or(c.relname = 'journal_versions'), false), pg_catalog.count(c.oid),
    coalesce(bool_or(c.relpersistence = 'u'), false), pg_catalog.count(DISTINCT n.oid)
  FROM pg_catalog.pg_namespace n LEFT JOIN pg_catalog.pg_class c
    ON c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f') WHERE n.nspname = $1"""
VERSION = "SELECT coalesce(max(version), 0) FROM {s}.journal_versions"

_NAME_BYTES_MAX = 63
_LOCK = 0x486C6466
"""The key of the advisory lock under which the tables are changed."""


class Relations(NamedTuple):
    """What is in the schema, as `RELATIONS` answers."""

    is_ours: bool
    tables: int
    is_unlogged: bool
    schemas: int


def refuse_foreign(name: str, schema: str, found: Relations) -> None:
    """Raise JournalError if a schema of that name has tables of another program."""
    if found.tables and not found.is_ours:
        raise JournalError(
            f"{name}: schema {schema} has tables of another program",
            "choose another schema: add ?schema=NAME to the address of the store",
        )


def refuse_long(name: str, schema: str) -> None:
    """Raise JournalError for a name that the server would cut: another schema could have the same beginning."""
    if len(schema.encode(errors="replace")) > _NAME_BYTES_MAX or "\0" in schema:
        raise JournalError(
            f"{name}: the name of its schema is too long",
            f"use {_NAME_BYTES_MAX} bytes at most: ?schema=NAME",
        )


def refuse_newer(name: str, version: int, migrations: Sequence[SchemaChange] = MIGRATIONS) -> None:
    """Raise JournalError if a newer Holdfast has changed the tables."""
    if version > len(migrations):
        raise JournalError(
            f"{name} was written by a newer Holdfast (version {version}; this one knows {len(migrations)})",
            "upgrade Holdfast; or add ?schema=NAME to the address: `holdfast rebuild` makes a journal there from git",
        )


def migration(schema: str, version: int, migrations: Sequence[SchemaChange] = MIGRATIONS) -> str:
    """Return the statements that bring a schema of a version up to date: all of them in one transaction, or none.

    Processes that do it at once wait for each other. The later ones get `CHANGED_MEANWHILE`, with nothing done.
    """
    quoted = quoted_name(schema)
    steps = [statement for step in migrations[version:] for statement in step]
    record = f"INSERT INTO {{s}}.journal_versions (version) VALUES ({len(migrations)})"
    return ";\n".join(
        [
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
            "SET LOCAL synchronous_commit = on",
            "SET LOCAL lock_timeout = '4s'",
            f"SELECT pg_catalog.pg_advisory_xact_lock({_LOCK})",
            _created(schema, quoted) if version == 0 else _unchanged(version).replace("{s}", quoted),
            *(statement.replace("{s}", quoted) for statement in (*steps, record)),
            "COMMIT",
        ]
    )


def quoted_name(schema: str) -> str:
    """Return a name as SQL spells it."""
    return '"' + schema.replace('"', '""') + '"'


def _created(schema: str, quoted: str) -> str:
    """Make the schema, unless somebody did who may do more than we. It has no tables yet, or we stop."""
    literal = "'" + schema.replace("'", "''") + "'"
    return f"""DO $guard$ BEGIN
      IF EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname = {literal} AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) THEN
        RAISE EXCEPTION 'the schema was made meanwhile' USING ERRCODE = '{CHANGED_MEANWHILE}';
      ELSIF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = {literal}) THEN
        CREATE SCHEMA {quoted};
      END IF;
    END $guard$"""


def _unchanged(version: int) -> str:
    return f"""DO $guard$ BEGIN
      IF (SELECT max(version) FROM {{s}}.journal_versions) <> {version} THEN
        RAISE EXCEPTION 'the schema was changed meanwhile' USING ERRCODE = '{CHANGED_MEANWHILE}';
      END IF;
    END $guard$"""
