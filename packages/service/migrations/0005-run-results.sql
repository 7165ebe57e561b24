-- What a run said and produced. Commands neither load nor rewrite these columns: a response may be 256 KiB.
-- Runs from before this migration have none.
ALTER TABLE runs ADD COLUMN response text, ADD COLUMN structured_output json, ADD COLUMN error json;
