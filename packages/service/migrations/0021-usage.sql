-- What was used, by hour, agent, run, model and account of the provider; after limits.usageHourDays by day, without the run.
-- A row names what filters and groups need, so that it still counts when its agent is deleted.
-- compatible since: 1
CREATE TABLE usage_hours (
  tenant           int         NOT NULL,
  hour             timestamptz NOT NULL,
  agent            uuid        NOT NULL,
  run              int         NOT NULL,
  model            text        NOT NULL,
  provider_account text        NOT NULL,
  root             uuid        NOT NULL,
  owner_provider   text        NOT NULL,
  account          text        NOT NULL,
  workspace        text        NOT NULL,
  backend          text        NOT NULL,
  cost             float8      NOT NULL,
  input_tokens     bigint      NOT NULL,
  cached_tokens    bigint      NOT NULL,
  output_tokens    bigint      NOT NULL,
  unpriced_tokens  bigint      NOT NULL,
  is_estimated     boolean     NOT NULL,
  PRIMARY KEY (tenant, hour, agent, run, model, provider_account)
) WITH (fillfactor = 80);
CREATE INDEX usage_hours_of_runs ON usage_hours (tenant, agent, run);

CREATE TABLE usage_days (
  tenant           int         NOT NULL,
  -- Its beginning in UTC.
  day              timestamptz NOT NULL,
  agent            uuid        NOT NULL,
  model            text        NOT NULL,
  provider_account text        NOT NULL,
  root             uuid        NOT NULL,
  owner_provider   text        NOT NULL,
  account          text        NOT NULL,
  workspace        text        NOT NULL,
  backend          text        NOT NULL,
  runs             int         NOT NULL,
  cost             float8      NOT NULL,
  input_tokens     bigint      NOT NULL,
  cached_tokens    bigint      NOT NULL,
  output_tokens    bigint      NOT NULL,
  unpriced_tokens  bigint      NOT NULL,
  is_estimated     boolean     NOT NULL,
  PRIMARY KEY (tenant, day, agent, model, provider_account)
);

-- True when usage_hours has all that the run used: then the run has ended, and both were compared. A build before this
-- one takes reports without writing usage_hours.
ALTER TABLE runs ADD COLUMN is_metered boolean;
