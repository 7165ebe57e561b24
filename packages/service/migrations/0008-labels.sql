-- What callers label an agent with. The column is what replies show and what a list compares; the table finds agents by
-- one label, in the order of a list. Live and ended agents are apart, so that a list of the live ones passes none that
-- ended.
ALTER TABLE agents ADD COLUMN labels jsonb NOT NULL DEFAULT '{}';

CREATE TABLE labels (
  tenant  int     NOT NULL,
  agent   uuid    NOT NULL,
  key     text    NOT NULL,
  value   text    NOT NULL,
  is_live boolean NOT NULL,
  PRIMARY KEY (tenant, agent, key),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
CREATE INDEX labels_by_value ON labels (tenant, key, value, is_live, agent DESC);
