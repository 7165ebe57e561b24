-- Copies of one spawned agent under ids that a script can compute.
-- $1 path of the agent to copy, $2 prefix of the new paths, $3 offset of the ids, $4 how many, $5 their account
WITH copied AS (
  SELECT r.*, a.id AS original FROM agents a CROSS JOIN generate_series(1, $4::int) n
  CROSS JOIN LATERAL json_populate_record(a, json_build_object(
    'id', '00000000-0000-7000-8000-' || lpad(($3::int + n)::text, 12, '0'),
    'root', '00000000-0000-7000-8000-' || lpad(($3::int + n)::text, 12, '0'),
    'path', $2::text || n, 'account', $5::text)) r
  WHERE a.path = $1 AND a.account = 'admin'
), states AS (
  INSERT INTO agent_states (tenant, agent, settings, memory, result, response, structured_output, labels)
  SELECT c.tenant, c.id, s.settings, s.memory, s.result, s.response, s.structured_output, s.labels
  FROM copied c JOIN agent_states s ON s.tenant = c.tenant AND s.agent = c.original
), briefs AS (
  INSERT INTO agent_briefs (tenant, agent, description, expected_output, repos, searched)
  SELECT c.tenant, c.id, b.description, b.expected_output, b.repos, b.searched
  FROM copied c JOIN agent_briefs b ON b.tenant = c.tenant AND b.agent = c.original
)
INSERT INTO agents (tenant, id, root, parent, ancestors, owner_provider, account, workspace, path, current, pool, backend,
  model, created_at, phase, reason, since, claimable_at, run_count, sequence, queued, deferred, next_deliver_at,
  progress_at, ended_at, cost, input_tokens, cached_tokens, output_tokens, home, deferral, rehearsed, sandboxed, session)
SELECT tenant, id, root, parent, ancestors, owner_provider, account, workspace, path, current, pool, backend,
  model, created_at, phase, reason, since, claimable_at, run_count, sequence, queued, deferred, next_deliver_at,
  progress_at, ended_at, cost, input_tokens, cached_tokens, output_tokens, home, deferral, rehearsed, sandboxed, session
FROM copied
