-- The audit has the writes of all resources of a tenant in the order of time.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY resource_history_by_time ON resource_history (tenant, at, kind, name, generation)
