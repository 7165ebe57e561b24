-- What people have seen of agents, and which agents they pinned.
-- compatible since: 1
CREATE TABLE agent_marks (
  tenant         int     NOT NULL,
  agent          uuid    NOT NULL,
  owner_provider text    NOT NULL,
  account        text    NOT NULL,
  -- The newest entry that was seen.
  seen           bigint,
  is_pinned      boolean,
  PRIMARY KEY (tenant, agent, owner_provider, account),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
) WITH (fillfactor = 70);
CREATE INDEX agent_marks_of_account ON agent_marks (tenant, owner_provider, account, agent DESC);
