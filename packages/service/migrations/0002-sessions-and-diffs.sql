-- What a harness needs to go on elsewhere, as its runner packed it after the newest run that got that far.
CREATE TABLE sessions (
  tenant   int         NOT NULL,
  agent    uuid        NOT NULL,
  run      int         NOT NULL,
  archive  bytea       NOT NULL,
  saved_at timestamptz NOT NULL,
  PRIMARY KEY (tenant, agent),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
-- It comes compressed.
ALTER TABLE sessions ALTER COLUMN archive SET STORAGE EXTERNAL;

-- What an agent's branch changed in each repository; the counts stand with the agent's result.
CREATE TABLE diffs (
  tenant int  NOT NULL,
  agent  uuid NOT NULL,
  repo   text NOT NULL,
  text   text NOT NULL,
  PRIMARY KEY (tenant, agent, repo),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
