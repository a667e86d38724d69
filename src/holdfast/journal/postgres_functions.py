"""The functions in the database, as of version 1: each call of a journal is one of them, one round trip and one transaction.

They are part of a migration (`postgres_schema.py`) and never edited: a change is a new migration.

How they hold under concurrency. The row of a journal is locked first where runs or plans come and go, then the row of
the run; no other order exists, so they cannot block each other for ever. Each statement sees what was committed when it began
(READ COMMITTED), and a row is read again once it is locked, so what is compared is what is stored. Under a stricter level the server
refuses one of two that meet, and the journal calls again.
"""

from __future__ import annotations

FUNCTIONS_1 = (
    # The session may be one of a pooler, with any settings: they hold for this transaction only. Other users of the database
    # may have made operators and functions that fit our types better than the server's own. They would run with our rights.
    """CREATE FUNCTION {s}.begin_write() RETURNS void LANGUAGE plpgsql AS $body$
    BEGIN
      PERFORM set_config('search_path', 'pg_catalog, pg_temp', true);
      PERFORM set_config('lock_timeout', '4s', true);
      IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
      END IF;
    END $body$""",
    # The loop is for who waited while the journal got another name.
    """CREATE FUNCTION {s}.locked_journal(p_repository text, p_name text) RETURNS bigint LANGUAGE plpgsql AS $body$
    DECLARE found_key bigint;
    BEGIN
      LOOP
        SELECT key INTO found_key FROM {s}.journals WHERE repository = p_repository AND name = p_name FOR UPDATE;
        IF FOUND THEN RETURN found_key; END IF;
        INSERT INTO {s}.journals (repository, name) VALUES (p_repository, p_name) ON CONFLICT DO NOTHING;
      END LOOP;
    END $body$""",
    """CREATE FUNCTION {s}.locked_run(p_repository text, p_name text, p_run text) RETURNS {s}.runs
    LANGUAGE plpgsql AS $body$
    DECLARE locked {s}.runs;
    BEGIN
      SELECT r.* INTO locked FROM {s}.runs r JOIN {s}.journals j ON j.key = r.journal
        WHERE j.repository = p_repository AND j.name = p_name AND r.run = p_run FOR UPDATE OF r;
      RETURN locked;
    END $body$""",
    # An epoch below the writer's is one that the store has forgotten.
    """CREATE FUNCTION {s}.standing(locked {s}.runs, p_epoch bigint, p_fence text) RETURNS text
    LANGUAGE sql IMMUTABLE AS $body$
      SELECT CASE WHEN locked.key IS NULL THEN 'missing' WHEN locked.epoch < p_epoch THEN 'behind'
        WHEN locked.epoch > p_epoch OR locked.fence IS DISTINCT FROM p_fence THEN 'lost' ELSE 'ours' END
    $body$""",
    """CREATE FUNCTION {s}.drop_unused_plans(p_journal bigint, p_plans text[]) RETURNS void LANGUAGE sql AS $body$
      DELETE FROM {s}.plans p WHERE p.journal = p_journal AND p.hash = ANY (p_plans) AND NOT EXISTS (
        SELECT 1 FROM {s}.runs r WHERE r.journal = p_journal AND p.hash IN (r.plan_hash, r.first_plan))
    $body$""",
    # The same call, repeated because its answer was lost, finds its own run.
    """CREATE FUNCTION {s}.create_run(p_repository text, p_name text, p_channel text, p_run text, p_epoch bigint,
      p_plan_hash text, p_first_plan text, p_plan bytea, p_row bytea, p_events bytea, p_at float8)
    RETURNS text LANGUAGE plpgsql AS $body$
    DECLARE journal_key bigint; stored {s}.runs; run_key bigint;
    BEGIN
      PERFORM {s}.begin_write();
      journal_key := {s}.locked_journal(p_repository, p_name);
      SELECT r.* INTO stored FROM {s}.runs r WHERE r.journal = journal_key AND r.run = p_run;
      IF FOUND THEN
        RETURN CASE WHEN stored.row = p_row AND stored.started_at = p_at AND stored.last_seq = 1 AND stored.fence = ''
          THEN 'created' ELSE 'exists' END;
      END IF;
      INSERT INTO {s}.plans VALUES (journal_key, p_plan_hash, p_plan) ON CONFLICT DO NOTHING;
      INSERT INTO {s}.runs (journal, run, epoch, plan_hash, first_plan, started_at, updated_at, last_seq, row)
        VALUES (journal_key, p_run, p_epoch, p_plan_hash, p_first_plan, p_at, p_at, 1, p_row) RETURNING key INTO run_key;
      INSERT INTO {s}.events VALUES (run_key, 1, p_at, p_events);
      PERFORM pg_notify(p_channel, p_run || ' 1');
      RETURN 'created';
    END $body$""",
    """CREATE FUNCTION {s}.take_epoch(p_repository text, p_name text, p_run text, p_fence text, p_holder bytea, p_lock text,
      p_lease_s float8, OUT standing text, OUT epoch bigint, OUT last_seq bigint, OUT holder bytea, OUT left_s float8)
    LANGUAGE plpgsql AS $body$
    DECLARE stored {s}.runs; now timestamptz;
    BEGIN
      PERFORM {s}.begin_write();
      stored := {s}.locked_run(p_repository, p_name, p_run);
      now := clock_timestamp();
      IF stored.key IS NULL THEN standing := 'missing'; RETURN; END IF;
      IF stored.held_until > now AND (stored.holder_lock = '' OR stored.holder_lock <> p_lock)
          AND stored.fence <> p_fence THEN
        standing := 'held';
        holder := stored.holder;
        left_s := extract(epoch FROM stored.held_until - now);
        RETURN;
      END IF;
      UPDATE {s}.runs r SET epoch = r.epoch + 1, fence = p_fence, holder = p_holder,
        holder_lock = CASE WHEN p_holder IS NULL THEN '' ELSE p_lock END,
        held_until = CASE WHEN p_holder IS NULL THEN '-infinity' ELSE now + p_lease_s * interval '1 second' END
        WHERE r.key = stored.key;
      standing := 'ours';
      epoch := stored.epoch + 1;
      last_seq := stored.last_seq;
    END $body$""",
    """CREATE FUNCTION {s}.renew_lease(p_repository text, p_name text, p_run text, p_epoch bigint, p_fence text,
      p_lease_s float8) RETURNS text LANGUAGE plpgsql AS $body$
    DECLARE stored {s}.runs; found_standing text;
    BEGIN
      PERFORM {s}.begin_write();
      stored := {s}.locked_run(p_repository, p_name, p_run);
      found_standing := {s}.standing(stored, p_epoch, p_fence);
      IF found_standing = 'ours' THEN
        UPDATE {s}.runs SET held_until = clock_timestamp() + p_lease_s * interval '1 second' WHERE key = stored.key;
      END IF;
      RETURN found_standing;
    END $body$""",
    """CREATE FUNCTION {s}.release_lease(p_repository text, p_name text, p_run text, p_epoch bigint, p_fence text)
    RETURNS text LANGUAGE plpgsql AS $body$
    DECLARE stored {s}.runs; found_standing text;
    BEGIN
      PERFORM {s}.begin_write();
      stored := {s}.locked_run(p_repository, p_name, p_run);
      found_standing := {s}.standing(stored, p_epoch, p_fence);
      IF found_standing = 'ours' THEN
        UPDATE {s}.runs SET held_until = '-infinity', holder = NULL, holder_lock = '' WHERE key = stored.key;
      END IF;
      RETURN found_standing;
    END $body$""",
    """CREATE FUNCTION {s}.append_events(p_repository text, p_name text, p_channel text, p_run text, p_epoch bigint,
      p_fence text, p_last bigint, p_digest bytea, p_events bytea, p_count bigint, p_row bytea, p_places bigint[],
      p_rows bytea[], p_at float8, p_plan_hash text, p_first_plan text, p_plan bytea,
      OUT standing text, OUT last_seq bigint)
    LANGUAGE plpgsql AS $body$
    DECLARE stored {s}.runs; journal_key bigint;
    BEGIN
      PERFORM {s}.begin_write();
      IF p_plan IS NOT NULL THEN journal_key := {s}.locked_journal(p_repository, p_name); END IF;
      stored := {s}.locked_run(p_repository, p_name, p_run);
      standing := {s}.standing(stored, p_epoch, p_fence);
      last_seq := stored.last_seq;
      IF standing <> 'ours' THEN RETURN; END IF;
      IF stored.last_seq <> p_last THEN
        IF stored.digest IS DISTINCT FROM p_digest THEN standing := 'behind'; END IF;
        RETURN;
      END IF;
      last_seq := stored.last_seq + p_count;
      IF p_plan IS NOT NULL THEN
        INSERT INTO {s}.plans VALUES (journal_key, p_plan_hash, p_plan) ON CONFLICT DO NOTHING;
        DELETE FROM {s}.tasks WHERE run = stored.key;
        UPDATE {s}.runs SET plan_hash = p_plan_hash, first_plan = p_first_plan WHERE key = stored.key;
        PERFORM {s}.drop_unused_plans(journal_key, ARRAY[stored.plan_hash, stored.first_plan]);
      END IF;
      IF p_count > 0 THEN
        INSERT INTO {s}.events VALUES (stored.key, stored.last_seq + 1, p_at, p_events);
        PERFORM pg_notify(p_channel, p_run || ' ' || last_seq);
      END IF;
      IF p_places IS NOT NULL THEN
        INSERT INTO {s}.tasks SELECT stored.key, given.* FROM unnest(p_places, p_rows) AS given
          ON CONFLICT (run, place) DO UPDATE SET row = EXCLUDED.row;
      END IF;
      UPDATE {s}.runs r SET row = p_row, updated_at = p_at, last_seq = stored.last_seq + p_count,
        digest = CASE WHEN p_count > 0 THEN p_digest ELSE r.digest END WHERE r.key = stored.key;
    END $body$""",
    """CREATE FUNCTION {s}.remove_run(p_repository text, p_name text, p_channel text, p_run text, p_epoch bigint,
      p_fence text) RETURNS text LANGUAGE plpgsql AS $body$
    DECLARE stored {s}.runs; found_standing text; journal_key bigint;
    BEGIN
      PERFORM {s}.begin_write();
      journal_key := {s}.locked_journal(p_repository, p_name);
      stored := {s}.locked_run(p_repository, p_name, p_run);
      found_standing := {s}.standing(stored, p_epoch, p_fence);
      IF found_standing = 'ours' THEN
        DELETE FROM {s}.events WHERE run = stored.key;
        DELETE FROM {s}.tasks WHERE run = stored.key;
        DELETE FROM {s}.runs WHERE key = stored.key;
        PERFORM {s}.drop_unused_plans(journal_key, ARRAY[stored.plan_hash, stored.first_plan]);
        PERFORM pg_notify(p_channel, p_run || ' 0');
      END IF;
      RETURN found_standing;
    END $body$""",
    """CREATE FUNCTION {s}.confirm_plan(p_repository text, p_name text, p_plan_hash text, p_at float8) RETURNS text
    LANGUAGE plpgsql AS $body$
    BEGIN
      PERFORM {s}.begin_write();
      INSERT INTO {s}.confirmed_plans VALUES ({s}.locked_journal(p_repository, p_name), p_plan_hash, p_at)
        ON CONFLICT DO NOTHING;
      RETURN 'confirmed';
    END $body$""",
    """CREATE FUNCTION {s}.begin_draft(p_repository text, p_draft text) RETURNS text LANGUAGE plpgsql AS $body$
    DECLARE draft bigint;
    BEGIN
      PERFORM {s}.begin_write();
      draft := {s}.locked_journal(p_repository, p_draft);
      DELETE FROM {s}.events e USING {s}.runs r WHERE r.journal = draft AND e.run = r.key;
      DELETE FROM {s}.tasks t USING {s}.runs r WHERE r.journal = draft AND t.run = r.key;
      DELETE FROM {s}.runs WHERE journal = draft;
      DELETE FROM {s}.plans WHERE journal = draft;
      DELETE FROM {s}.confirmed_plans WHERE journal = draft;
      RETURN 'begun';
    END $body$""",
    # Without a draft, an earlier call has put it in place and its answer was lost. Writers of the old journal are fenced off.
    """CREATE FUNCTION {s}.put_draft_in_place(p_repository text, p_draft text, p_channel text) RETURNS text
    LANGUAGE plpgsql AS $body$
    DECLARE draft bigint; present bigint; number bigint;
    BEGIN
      PERFORM {s}.begin_write();
      SELECT key INTO present FROM {s}.journals WHERE repository = p_repository AND name = '' FOR UPDATE;
      SELECT key INTO draft FROM {s}.journals WHERE repository = p_repository AND name = p_draft FOR UPDATE;
      SELECT coalesce(max(substr(name, 9)::bigint), 0) INTO number
        FROM {s}.journals WHERE repository = p_repository AND name ~ '^damaged-[0-9]+$';
      IF draft IS NOT NULL AND present IS NOT NULL THEN
        number := number + 1;
        PERFORM 1 FROM {s}.runs WHERE journal = present FOR UPDATE;
        UPDATE {s}.runs SET fence = 'replaced', held_until = '-infinity' WHERE journal = present;
        UPDATE {s}.journals SET name = 'damaged-' || number WHERE key = present;
      END IF;
      UPDATE {s}.journals SET name = '' WHERE key = draft;
      PERFORM pg_notify(p_channel, '');
      RETURN CASE WHEN present IS NULL OR number = 0 THEN NULL ELSE 'damaged-' || number END;
    END $body$""",
)
