-- Copies of one spawned agent under ids that a script can compute.
-- $1 path of the agent to copy, $2 prefix of the new paths, $3 offset of the ids, $4 how many, $5 their account
INSERT INTO agents
SELECT (json_populate_record(t, json_build_object(
  'id', '00000000-0000-7000-8000-' || lpad(($3::int + n)::text, 12, '0'),
  'root', '00000000-0000-7000-8000-' || lpad(($3::int + n)::text, 12, '0'),
  'path', $2::text || n, 'account', $5::text))).*
FROM agents t, generate_series(1, $4::int) n
WHERE t.path = $1 AND t.account = 'admin'
