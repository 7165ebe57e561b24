-- Fills a database as use over a long time would. Agents are in families of four: a root and three children.
--   fill.agents, fill.rows: how many agents, and how many entries of timelines
--   fill.days: how long ago the first agent was spawned
--   fill.long: how many agents share a tenth of all entries
-- The newest 250 families belong to the caller's tenant. 200 of them live, 50 ended in the last week: with 1,000 agents
-- that is everything there is. All others are older, one family in ten of another tenant, and one in 25 of those lives.
CREATE TEMP TABLE filled AS
WITH settings AS (
  SELECT current_setting('fill.agents')::int / 4 AS families, current_setting('fill.days')::int AS days,
    current_setting('fill.long')::int AS long, current_setting('fill.rows')::bigint AS entries
), families AS (
  SELECT s.*, f AS family, f - (s.families - 250) AS new,
    f > s.families - s.long AS is_long, f <= s.families - 250 AND f % 10 = 0 AS is_other,
    CASE WHEN f <= s.families - 250 THEN f % 250 = 0 ELSE f > s.families - 200 END AS is_live
  FROM settings s CROSS JOIN LATERAL generate_series(1, s.families) f
), aged AS (
  SELECT *,
    CASE WHEN is_other THEN 2 + family / 10 % 9 ELSE 1 END AS tenant,
    -- The caller's families are counted without gaps.
    CASE WHEN is_other THEN family WHEN new > 0 THEN families - 250 - (families - 250) / 10 + new
      ELSE family - family / 10 END AS number,
    CASE WHEN is_long THEN now() - make_interval(days => days)
      WHEN new > 0 THEN now() - interval '6 days' + new * interval '20 minutes'
      ELSE now() - make_interval(days => days) + family::float8 / families * make_interval(days => days - 9) END AS born
  FROM families
), members AS (
  SELECT aged.*, m AS member, (family - 1) * 4 + m AS n,
    date_trunc('milliseconds', born) + m * interval '1 second' AS created_at
  FROM aged CROSS JOIN generate_series(0, 3) m
), named AS (
  SELECT *, 'agent-' || number || CASE WHEN member > 0 THEN '/part-' || member ELSE '' END AS path,
    overlay(overlay(lpad(to_hex((extract(epoch FROM created_at) * 1000)::bigint), 12, '0') || md5(n::text)
      PLACING '7' FROM 13) PLACING '8' FROM 17)::char(32)::uuid AS id,
    CASE WHEN NOT is_live THEN created_at + CASE WHEN new > 0 THEN interval '12 hours' ELSE interval '1 day' END END AS ended_at,
    greatest(8, entries * 4 / (families * 40)) + CASE WHEN n % 100 = 0 THEN entries * 50 / (families * 4) ELSE 0 END
      + CASE WHEN is_long AND member = 0 THEN entries / 10 / long ELSE 0 END AS sequence
  FROM members
)
SELECT tenant, id, first_value(id) OVER (PARTITION BY family ORDER BY member) AS root, member, n, path, is_live,
  created_at, ended_at, coalesce(ended_at, now()) AS last_at, sequence::int AS sequence, family % 5 = 0 AS is_labelled
FROM named;
ANALYZE filled;

-- What refers to each other is made from the same rows.
SET session_replication_role = replica;
SET work_mem = '512MB';

INSERT INTO tenants (id, provider, org)
SELECT n, 'PROVIDER_CODEHOST_APP', 'org-' || n FROM generate_series(2, 10) n;

INSERT INTO agents (tenant, id, root, parent, ancestors, owner_provider, account, workspace, path, current, pool, backend,
  model, created_at, phase, reason, since, run_count, sequence, queued, deferred, progress_at, ended_at, cost,
  input_tokens, cached_tokens, output_tokens, session)
SELECT f.tenant, f.id, f.root, CASE WHEN f.member > 0 THEN f.root END,
  CASE WHEN f.member > 0 THEN ARRAY[f.root] ELSE '{}' END, t.owner_provider, t.account, t.workspace, f.path, true, t.pool,
  t.backend, t.model, f.created_at, CASE WHEN f.is_live THEN 'PHASE_WAITING_FOR_INPUT' ELSE 'PHASE_COMPLETED' END,
  CASE WHEN f.is_live THEN 'RESTING' ELSE 'FINISHED' END, f.last_at, (f.sequence + 47) / 50, f.sequence, 0, 0, f.last_at,
  f.ended_at, 0.25, 120000, 90000, 4000, ''
FROM filled f JOIN agents t ON t.path = 'template' ORDER BY f.created_at;

INSERT INTO agent_states (tenant, agent, settings, memory, result, response, labels)
SELECT f.tenant, f.id, s.settings, s.memory, s.result, left(repeat(md5(f.n::text), 20), 300),
  CASE WHEN f.is_labelled THEN '{"team": "web"}' ELSE '{}' END::jsonb
FROM filled f JOIN agents t ON t.path = 'template' JOIN agent_states s ON s.agent = t.id ORDER BY f.created_at;

INSERT INTO labels (tenant, agent, key, value, is_live)
SELECT tenant, id, 'team', 'web', is_live FROM filled WHERE is_labelled;

-- An index that is built at once costs a fraction of one that grows row by row.
CREATE TEMP TABLE rebuilt AS SELECT pg_get_indexdef('agent_briefs_searched'::regclass) AS definition;
DROP INDEX agent_briefs_searched;

-- One description in ten has the same word, one in a hundred another, and each has one of its own.
INSERT INTO agent_briefs (tenant, agent, description, expected_output, repos, searched)
SELECT f.tenant, f.id, d.text, '', '{}', f.path || ' ' || d.text
FROM filled f CROSS JOIN LATERAL (
  SELECT 'Fix what ' || left(md5('often' || abs(hashint4(f.n) % 10)), 10) || ' does to '
    || left(md5('seldom' || abs(hashint4(-f.n) % 100)), 10) || ' in ' || left(md5('once' || f.n), 10) AS text
) d ORDER BY f.created_at;

SET maintenance_work_mem = '512MB';
DO $$ BEGIN EXECUTE (SELECT definition FROM rebuilt); END $$;

-- As they were written: by time, the entries of all agents mixed.
INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
SELECT tenant, id, i, at, (i + 47) / 50,
  CASE WHEN i = 1 THEN 'AGENT_SPAWNED' WHEN i % 50 = 2 THEN 'FOLLOW_UP_QUEUED' WHEN i % 50 = 3 THEN 'RUN_STARTED'
    WHEN i % 3 = 0 THEN 'MESSAGE' WHEN i % 3 = 1 THEN 'TOOL_CALL' ELSE 'TOOL_RESULT' END,
  CASE WHEN i % 50 = 2 THEN md5(id::text || i)::uuid::text ELSE '' END,
  CASE WHEN i > 1 AND i % 50 <> 2 THEN left(repeat(md5(i::text), 12), 40 + i * 37 % 320) END,
  '{"tool": "Bash"}'
FROM (
  SELECT tenant, id, i, created_at + (i - 1)::float8 / sequence * (last_at - created_at) AS at
  FROM filled CROSS JOIN LATERAL generate_series(1, sequence) i ORDER BY at
) entries;

INSERT INTO follow_ups (tenant, agent, id, state, position, sequence, description, tasks, queued_at, batch, digest)
SELECT tenant, agent, follow_up_id, 'DELIVERED', sequence, sequence, left(repeat(md5(follow_up_id), 8), 200), '[]', at,
  1 + sequence / 50, left(repeat(md5(follow_up_id), 2), 43)
FROM timeline WHERE type = 'FOLLOW_UP_QUEUED';

INSERT INTO runs (tenant, agent, number, batch, state, outcome, stop, runner_id, runner, started_at, ended_at, gone_at,
  reports, current_action, follow_up_ids, cost, input_tokens, cached_tokens, output_tokens, response)
SELECT tenant, agent, run, run, 'ENDED', 'COMPLETED', '', '00000000-0000-7000-8000-000000000000', 'filled', at, at, at, 9,
  '', '{}', 0.01, 5000, 4000, 200, left(repeat(md5(agent::text), 10), 250)
FROM timeline WHERE type = 'RUN_STARTED';

DROP TABLE filled, rebuilt;
SET session_replication_role = origin;
RESET work_mem;
RESET maintenance_work_mem;
