-- The trace in which the runner records a run.
-- compatible since: 1
ALTER TABLE runs ADD COLUMN trace_id text;
