-- Agents that have a budget.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY agents_with_budget ON agents (tenant, is_live, id) WHERE budget_usd IS NOT NULL
