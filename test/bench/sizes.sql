-- What the seeded agents have after some work, with texts of a usual length that do not compress.
CREATE FUNCTION pg_temp.words(bytes int) RETURNS text LANGUAGE sql VOLATILE AS
  $$ SELECT left(string_agg(md5(random()::text), ' '), bytes) FROM generate_series(1, bytes / 33 + 1) $$;

UPDATE agent_states s SET response = pg_temp.words(1000), labels = '{"team": "web", "ticket": "T-1"}'
FROM agents a WHERE a.tenant = s.tenant AND a.id = s.agent;
INSERT INTO labels (tenant, agent, key, value, is_live)
SELECT tenant, id, l.key, l.value, is_live FROM agents, (VALUES ('team', 'web'), ('ticket', 'T-1')) AS l (key, value);
INSERT INTO runs (tenant, agent, number, batch, state, outcome, stop, runner_id, runner, started_at, ended_at, gone_at,
  reports, current_action, follow_up_ids, cost, input_tokens, cached_tokens, output_tokens, response)
SELECT tenant, id, n, n, 'ENDED', 'COMPLETED', 'NONE', id, 'builder-1', now(), now(), now(), 20, '', ARRAY[gen_random_uuid()::text],
  0.5, 1000, 1000, 1000, pg_temp.words(1000)
FROM agents, generate_series(1, 10) n;
INSERT INTO follow_ups (tenant, agent, id, state, position, sequence, description, tasks, queued_at, batch, digest)
SELECT tenant, id, gen_random_uuid()::text, 'DELIVERED', n, n, pg_temp.words(300), '[]', now(), n, md5(n::text) || md5(id::text)
FROM agents, generate_series(1, 10) n;
INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
SELECT tenant, id, n, now(), n / 5, CASE n % 10 WHEN 0 THEN 'RUN_STARTED' ELSE 'MESSAGE' END, '', pg_temp.words(300),
  '{"tool": "shell", "exitCode": 0, "durationMs": 1200}'
FROM agents, generate_series(1, 50) n ORDER BY n, id;
INSERT INTO checklists (tenant, agent, tasks)
SELECT tenant, id, json_build_array(pg_temp.words(200), pg_temp.words(200), pg_temp.words(200), pg_temp.words(200)) FROM agents
ON CONFLICT DO NOTHING;
INSERT INTO diffs (tenant, agent, repo, working_tree, text)
SELECT tenant, id, 'https://git.example/product.git', false, pg_temp.words(8000) FROM agents;
INSERT INTO checkpoints (tenant, agent, id, run, final, parts, bytes, completed_at)
SELECT tenant, id, gen_random_uuid(), 10, true, 1, 20000, now() FROM agents ORDER BY id LIMIT 1000;
INSERT INTO checkpoint_parts (tenant, agent, checkpoint, part, content)
SELECT tenant, agent, id, 0, decode(repeat(md5(id::text), 1250), 'hex') FROM checkpoints;
INSERT INTO replies (tenant, key_id, key, digest, reply, created_at)
SELECT 1, 'bench', n::text, md5(n::text) || md5(n::text), json_build_object('text', pg_temp.words(400)), now()
FROM generate_series(1, 10000) n;
