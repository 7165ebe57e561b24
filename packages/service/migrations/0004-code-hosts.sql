-- Code hosts: the deliveries of their webhooks, the change requests of agents, and what is to be posted.
-- compatible since: 1

-- The address of an integration's webhook: /hooks/{id}. Nobody can guess it.
CREATE TABLE hooks (
  tenant      int         NOT NULL REFERENCES tenants,
  integration text        NOT NULL,
  id          text        NOT NULL,
  -- Labels and assignments whose deliveries never came: until when the host was asked for them, and when it is next.
  compared_at timestamptz NOT NULL DEFAULT now(),
  next_at     timestamptz NOT NULL DEFAULT now() + interval '1 hour',
  PRIMARY KEY (tenant, integration)
);
CREATE UNIQUE INDEX hooks_by_id ON hooks (id);
CREATE INDEX hooks_due ON hooks (tenant, next_at);

-- Every delivery whose signature was right, once, by the host's own id.
CREATE TABLE deliveries (
  tenant      int         NOT NULL REFERENCES tenants,
  integration text        NOT NULL,
  id          text        NOT NULL,
  event       text        NOT NULL,
  -- RECEIVED until it has taken effect (DONE), has none (IGNORED) or failed for good (FAILED).
  state       text        NOT NULL,
  reason      text        NOT NULL,
  -- The headers that describe it, and its body compressed with gzip, until both are deleted.
  headers     json,
  body        bytea,
  bytes       int         NOT NULL,
  attempts    int         NOT NULL,
  received_at timestamptz NOT NULL,
  settled_at  timestamptz,
  -- When it is processed next; null once it is settled.
  next_at     timestamptz,
  PRIMARY KEY (tenant, integration, id)
);
-- What is due, by tenant, for tenants take turns; the same below.
CREATE INDEX deliveries_due ON deliveries (tenant, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_list ON deliveries (tenant, integration, received_at DESC, id DESC);
CREATE INDEX deliveries_old ON deliveries (received_at);

-- A change request of an agent, as its host described it last. Catalog kind change-request.
CREATE TABLE change_requests (
  tenant       int         NOT NULL,
  name         text        NOT NULL,
  integration  text        NOT NULL,
  -- Its full path at the host, and its URL as the workspace of the agent has it.
  repo         text        NOT NULL,
  repo_url     text        NOT NULL,
  number       int         NOT NULL,
  agent        uuid        NOT NULL,
  url          text        NOT NULL,
  title        text        NOT NULL,
  state        text        NOT NULL,
  branch       text        NOT NULL,
  base         text        NOT NULL,
  head_sha     text        NOT NULL,
  checks       json        NOT NULL,
  review       json        NOT NULL,
  -- Automatic rounds since a person last wrote to the agent, and how many in a row were because of checks.
  rounds       int         NOT NULL,
  check_rounds int         NOT NULL,
  paused       boolean     NOT NULL,
  -- What the agent was told: the heads whose checks and conflict, and the state.
  told         json        NOT NULL,
  created_at   timestamptz NOT NULL,
  updated_at   timestamptz NOT NULL,
  -- When it is compared with the host next, and how often that was asked for: a request during a comparison counts.
  next_at      timestamptz,
  asked        bigint      NOT NULL,
  -- A node is comparing it; if that never ends, because its node died, it is due again at `next_at`.
  is_claimed   boolean     NOT NULL DEFAULT false,
  PRIMARY KEY (tenant, name),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE UNIQUE INDEX change_requests_by_number ON change_requests (tenant, integration, repo, number);
CREATE INDEX change_requests_by_agent ON change_requests (tenant, agent);
CREATE INDEX change_requests_by_branch ON change_requests (tenant, integration, repo, branch);
-- Every open one has a time, so what is due is looked for by time too.
CREATE INDEX change_requests_next ON change_requests (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX change_requests_due ON change_requests (tenant, next_at) WHERE next_at IS NOT NULL;

-- Branches that agents have pushed, by the URL of the repository: whose change request one from this branch is.
CREATE TABLE pushed_branches (
  tenant  int         NOT NULL,
  repo    text        NOT NULL,
  branch  text        NOT NULL,
  agent   uuid        NOT NULL,
  -- Pushed to by the run in progress. At its end, at this time, a change request may be opened.
  is_new  boolean     NOT NULL,
  next_at timestamptz,
  PRIMARY KEY (tenant, repo, branch),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE INDEX pushed_branches_by_agent ON pushed_branches (tenant, agent);
CREATE INDEX pushed_branches_due ON pushed_branches (tenant, next_at) WHERE next_at IS NOT NULL;

-- The agent that works on an issue or change request of a host.
CREATE TABLE triggered_agents (
  tenant      int  NOT NULL,
  integration text NOT NULL,
  repo        text NOT NULL,
  -- issue or change-request: some hosts number them apart.
  subject     text NOT NULL,
  number      int  NOT NULL,
  agent       uuid NOT NULL,
  -- The one that spawned it: processed again, it is not a message to the agent.
  delivery    text NOT NULL DEFAULT '',
  PRIMARY KEY (tenant, integration, repo, subject, number),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE INDEX triggered_agents_by_agent ON triggered_agents (tenant, agent);

-- What is to be sent to others, written in the transaction that causes it.
CREATE TABLE outbox (
  tenant     int         NOT NULL REFERENCES tenants,
  id         bigint      GENERATED BY DEFAULT AS IDENTITY,
  -- Who sends it, and to whom: an integration.
  topic      text        NOT NULL,
  target     text        NOT NULL,
  -- Items of one lane are sent in order.
  lane       text        NOT NULL,
  kind       text        NOT NULL,
  agent      uuid,
  data       json        NOT NULL,
  -- Written once: the same item again changes nothing.
  key        text        NOT NULL,
  -- What a posted text ends with, invisible to people.
  marker     uuid        NOT NULL DEFAULT gen_random_uuid(),
  -- QUEUED, SENDING (it may have been sent), SENT, FAILED, DROPPED.
  state      text        NOT NULL,
  attempts   int         NOT NULL,
  error      text        NOT NULL,
  -- The host's id of what was posted, by which the integration's own comments are known.
  posted_id  text        NOT NULL,
  created_at timestamptz NOT NULL,
  settled_at timestamptz,
  next_at    timestamptz,
  PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX outbox_by_key ON outbox (tenant, key);
CREATE INDEX outbox_due ON outbox (tenant, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX outbox_lane ON outbox (tenant, target, lane, id) WHERE next_at IS NOT NULL;
CREATE INDEX outbox_posted ON outbox (tenant, target, posted_id) WHERE posted_id <> '';
CREATE INDEX outbox_old ON outbox (settled_at) WHERE settled_at IS NOT NULL;
