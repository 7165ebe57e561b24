-- Triggers: their addresses and deliveries are in the tables of those of integrations, as `trigger/NAME`, which no
-- integration can be called.
-- compatible since: 1

-- Null: nothing is compared with a host.
ALTER TABLE hooks ALTER COLUMN next_at DROP NOT NULL;
-- Of a trigger: the hour that it counts, how many requests took effect in it, how many failed since the last that did not,
-- and why the service paused it.
ALTER TABLE hooks ADD COLUMN hour_at timestamptz, ADD COLUMN in_hour int NOT NULL DEFAULT 0,
  ADD COLUMN failures int NOT NULL DEFAULT 0, ADD COLUMN paused_reason text NOT NULL DEFAULT '';

-- It is counted in the hour of its trigger, and the agent that it has reached.
ALTER TABLE deliveries ADD COLUMN is_admitted boolean NOT NULL DEFAULT false, ADD COLUMN agent uuid;
