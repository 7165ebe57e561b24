-- The account at a model's provider that a run uses, and the accounts of each live runner.
-- compatible since: 1
ALTER TABLE runs ADD COLUMN account text NOT NULL DEFAULT '';
ALTER TABLE runners ADD COLUMN accounts json NOT NULL DEFAULT '[]';
