-- A token resource that is deleted and created again is another token: the generation at which it was created tells
-- the two apart. Keys from before this migration share generation 0, which no later token has.
ALTER TABLE keys ADD COLUMN created bigint NOT NULL DEFAULT 0;

-- The token that registered a runner, as `<name>@<generation of its creation>`; empty for the service's own runner.
-- Null is a runner from before this migration: the next poll under its name, in its pool, binds it.
ALTER TABLE runners ADD COLUMN token text;
UPDATE runners SET token = '' WHERE tenant = 0;
-- A run knows its runner by the id alone, so an id belongs to one runner of all tenants.
DELETE FROM runners r USING runners o WHERE o.id = r.id AND o.tenant < r.tenant;
CREATE UNIQUE INDEX runners_by_id ON runners (id);
CREATE INDEX runners_name ON runners (name);

-- What a run shows of its runner, which has a row only for as long as it is needed.
ALTER TABLE runs ADD COLUMN runner text NOT NULL DEFAULT '';
UPDATE runs r SET runner = coalesce(t.data ->> 'runner', '')
FROM timeline t
WHERE t.type = 'RUN_STARTED' AND t.tenant = r.tenant AND t.agent = r.agent AND t.run = r.number;
