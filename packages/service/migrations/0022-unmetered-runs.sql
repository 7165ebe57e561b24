-- Runs whose usage is not compared with usage_hours yet.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY runs_unmetered ON runs (tenant, agent, number) WHERE is_metered IS NULL
