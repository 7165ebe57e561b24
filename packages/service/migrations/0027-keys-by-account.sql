-- The keys of an account: what it created acts with their role.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY keys_by_account ON keys (tenant, owner_provider, account)
