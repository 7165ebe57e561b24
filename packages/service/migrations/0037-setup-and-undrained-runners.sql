-- An admin no longer wants to see what is left to set up. A runner that drained is asked to take runs again, until it
-- polls as one that does.
-- compatible since: 1
ALTER TABLE tenants ADD COLUMN setup_dismissed boolean NOT NULL DEFAULT false;
ALTER TABLE runners ADD COLUMN undrained boolean NOT NULL DEFAULT false;
