-- How often a share link was opened, and when last.
-- compatible since: 1
ALTER TABLE keys ADD COLUMN opens int NOT NULL DEFAULT 0, ADD COLUMN opened_at timestamptz;
