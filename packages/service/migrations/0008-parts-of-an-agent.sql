-- The parts of an agent are written together with its row and with nothing else, as its timeline is: a spawn that checks
-- three foreign keys for them takes an eighth more of the database's time.
-- compatible since: 1
ALTER TABLE agents DROP CONSTRAINT agents_tenant_root_fkey;
ALTER TABLE agent_states DROP CONSTRAINT agent_states_tenant_agent_fkey;
ALTER TABLE agent_briefs DROP CONSTRAINT agent_briefs_tenant_agent_fkey;
