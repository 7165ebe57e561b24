-- The same transaction as a queue-add: lock the agent, insert the message and its timeline entry, update, commit.
\set n random(1, 1000)
BEGIN;
SELECT sequence + 1 AS sequence FROM agents
  WHERE tenant = :tenant AND id = ('00000000-0000-7000-8000-' || lpad(:n::text, 12, '0'))::uuid FOR UPDATE \gset
INSERT INTO follow_ups (tenant, agent, id, state, position, sequence, description, change, tasks, deliver_at, queued_at, batch, digest)
  VALUES (:tenant, ('00000000-0000-7000-8000-' || lpad(:n::text, 12, '0'))::uuid, gen_random_uuid()::text, 'QUEUED', :sequence, :sequence,
    'Please also look at the failing test in the login flow.', NULL, '[]', NULL, now(), NULL, 'q83vEjRWeJq83vEjRWeJq83vEjRWeJq83vEjRWeJq8');
INSERT INTO timeline (tenant, agent, sequence, at, run, type, follow_up_id, text, data)
  VALUES (:tenant, ('00000000-0000-7000-8000-' || lpad(:n::text, 12, '0'))::uuid, :sequence, now(), 0, 'FOLLOW_UP_QUEUED',
    'an-id-of-thirty-six-characters-is-it', NULL, '{"from":"","to":"QUEUED"}');
UPDATE agents SET sequence = :sequence, queued = queued + 1
  WHERE tenant = :tenant AND id = ('00000000-0000-7000-8000-' || lpad(:n::text, 12, '0'))::uuid;
COMMIT;
