-- A browser gets notifications until its session ends.
-- compatible since: 1
ALTER TABLE notification_targets ADD COLUMN session uuid;
ALTER TABLE notification_targets ADD FOREIGN KEY (tenant, session) REFERENCES browser_sessions (tenant, id) ON DELETE CASCADE;
CREATE INDEX notification_targets_of_sessions ON notification_targets (tenant, session) WHERE session IS NOT NULL;
