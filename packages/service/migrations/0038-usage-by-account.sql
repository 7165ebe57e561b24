-- What each account of a page of members has spent in this month.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY usage_hours_by_account ON usage_hours (tenant, owner_provider, account, hour)
