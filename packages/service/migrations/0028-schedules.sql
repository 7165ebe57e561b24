-- Schedules: when each fires next, and what fired.
-- compatible since: 1

CREATE TABLE schedules (
  tenant         int         NOT NULL REFERENCES tenants,
  name           text        NOT NULL,
  -- The next time by its expression; null while it does not fire.
  scheduled_at   timestamptz,
  -- When something is to be done: after the jitter, or later while a node works on it or an agent is busy.
  next_at        timestamptz,
  claims         int         NOT NULL DEFAULT 0,
  -- The agent that this fire spawns, so that it is spawned once.
  spawn_id       uuid,
  -- Its work waits until the agent of the fire before is idle.
  is_waiting     boolean     NOT NULL DEFAULT false,
  -- Counts the agents that it has spawned.
  n              bigint      NOT NULL DEFAULT 0,
  -- Fires in a row that failed.
  failures       int         NOT NULL DEFAULT 0,
  -- Why the service has paused it; empty if it has not.
  paused_reason  text        NOT NULL DEFAULT '',
  -- The agent and the message of the newest fire that had one.
  last_agent     uuid,
  last_follow_up text        NOT NULL DEFAULT '',
  PRIMARY KEY (tenant, name)
);
-- Most have a time, so what is due is looked for by time too.
CREATE INDEX schedules_by_time ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_due ON schedules (tenant, next_at) WHERE next_at IS NOT NULL;

-- One row per scheduled time, so that none counts twice.
CREATE TABLE schedule_fires (
  tenant       int         NOT NULL REFERENCES tenants,
  schedule     text        NOT NULL,
  scheduled_at timestamptz NOT NULL,
  at           timestamptz NOT NULL,
  -- FIRED, SKIPPED or FAILED.
  outcome      text        NOT NULL,
  reason       text        NOT NULL,
  -- How many times that were missed this row is about.
  times        int         NOT NULL,
  manual       boolean     NOT NULL,
  agent        uuid,
  follow_up_id text        NOT NULL,
  PRIMARY KEY (tenant, schedule, scheduled_at),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE INDEX schedule_fires_list ON schedule_fires (tenant, schedule, at, scheduled_at);
CREATE INDEX schedule_fires_old ON schedule_fires (at);
