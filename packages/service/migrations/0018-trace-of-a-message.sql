-- The request that sent a message, as the runs that it starts name it in their traces.
-- compatible since: 1
ALTER TABLE follow_ups ADD COLUMN traceparent text;
