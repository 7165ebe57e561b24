-- How often in a row a claim of work was recorded and not ended: work that ends the process each time is given up. When
-- somebody last asked a host for missed triggers.
-- compatible since: 1
ALTER TABLE deliveries ADD COLUMN claims int NOT NULL DEFAULT 0;
ALTER TABLE hooks ADD COLUMN claims int NOT NULL DEFAULT 0, ADD COLUMN asked_at timestamptz;
