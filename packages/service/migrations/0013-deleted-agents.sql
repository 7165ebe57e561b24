-- Agents that people deleted. The row of such an agent stays, without its name: runners ask for it before they delete its
-- folders, and together with this row it is the record of who deleted what. Everything else of it is deleted in batches.
-- compatible since: 1
CREATE TABLE deleted_agents (
  tenant     int         NOT NULL,
  agent      uuid        NOT NULL,
  deleted_at timestamptz NOT NULL DEFAULT now(),
  deleted_by text        NOT NULL,
  key_id     text        NOT NULL,
  -- Since then nothing else of it is stored.
  erased_at  timestamptz,
  PRIMARY KEY (tenant, agent),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE INDEX deleted_agents_left ON deleted_agents (deleted_at) WHERE erased_at IS NULL;
