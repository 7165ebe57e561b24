-- The same of the request that spawned an agent.
-- compatible since: 1
ALTER TABLE agent_briefs ADD COLUMN traceparent text;
