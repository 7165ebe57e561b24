-- Review threads: comments of people on an agent's changes, and the agent's answers. Written only under the lock of the
-- agent's row.
-- compatible since: 1

CREATE TABLE threads (
  tenant         int         NOT NULL,
  agent          uuid        NOT NULL,
  id             uuid        NOT NULL,
  -- The URL of the repository, as in `diffs`.
  repo           text        NOT NULL,
  path           text        NOT NULL,
  -- The last line; 0 for the whole file.
  line           int         NOT NULL,
  start_line     int         NOT NULL,
  side           text        NOT NULL CHECK (side IN ('OLD', 'NEW')),
  quote          text        NOT NULL,
  state          text        NOT NULL CHECK (state IN ('OPEN', 'RESOLVED')),
  answer         text        NOT NULL CHECK (answer IN ('NONE', 'PENDING', 'ANSWERED', 'DECLINED')),
  -- The name of a change-request record, and the thread on its code host; empty for one made in the dashboard.
  change_request text        NOT NULL,
  host_id        text        NOT NULL,
  url            text        NOT NULL,
  -- The follow-up that opened it, and the one that last told the agent.
  opened_by      text        NOT NULL,
  told_by        text        NOT NULL,
  created_at     timestamptz NOT NULL,
  PRIMARY KEY (tenant, agent, id),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE UNIQUE INDEX threads_host ON threads (tenant, change_request, host_id) WHERE host_id <> '';

CREATE TABLE thread_comments (
  tenant     int         NOT NULL,
  agent      uuid        NOT NULL,
  thread     uuid        NOT NULL,
  number     int         NOT NULL,
  author     text        NOT NULL,
  kind       text        NOT NULL CHECK (kind IN ('PERSON', 'AGENT')),
  permission text        NOT NULL,
  body       text        NOT NULL,
  at         timestamptz NOT NULL,
  url        text        NOT NULL,
  host_id    text        NOT NULL,
  -- Of an agent's own answer.
  run        int,
  PRIMARY KEY (tenant, agent, thread, number),
  FOREIGN KEY (tenant, agent, thread) REFERENCES threads (tenant, agent, id) ON DELETE CASCADE
);
