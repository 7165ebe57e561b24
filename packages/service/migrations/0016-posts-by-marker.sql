-- Posts of every integration of the installation are known by their marker, whichever integration reads them.
-- compatible since: 1
-- kind: concurrent
CREATE INDEX CONCURRENTLY outbox_by_marker ON outbox (marker);
