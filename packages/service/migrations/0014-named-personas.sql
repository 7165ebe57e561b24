-- Which workspace or integration names a persona: only an admin may create a persona that one of them uses already.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY resources_by_persona ON resources (tenant, left(document ->> 'persona', 128))
  WHERE kind IN ('workspace', 'integration') AND document IS NOT NULL;
