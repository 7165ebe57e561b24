-- The same for the other work that waits, and when somebody last asked for a comparison of a change request.
-- compatible since: 1
ALTER TABLE change_requests ADD COLUMN claims int NOT NULL DEFAULT 0, ADD COLUMN asked_at timestamptz;
ALTER TABLE pushed_branches ADD COLUMN claims int NOT NULL DEFAULT 0;
ALTER TABLE outbox ADD COLUMN claims int NOT NULL DEFAULT 0;
