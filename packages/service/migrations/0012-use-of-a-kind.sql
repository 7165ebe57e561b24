-- The documents of a kind and their bytes (resources); documents that are not described yet, which have a later generation.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY resources_use ON resources ((generation - coalesce(indexed, 0)), tenant, kind) INCLUDE (generation, indexed, bytes, created_by) WHERE document IS NOT NULL
