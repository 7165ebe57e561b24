-- Live output: which nodes have open streams of an agent that runs. Runners send what these agents are producing.
-- compatible since: 1

-- Every node renews its rows while its streams are open; a row that is not renewed ends by itself. Nothing is lost with
-- them, so they are not logged.
CREATE UNLOGGED TABLE watches (
  tenant    int         NOT NULL,
  agent     uuid        NOT NULL,
  node      uuid        NOT NULL,
  -- When the last stream was opened: what is being produced is then sent from its beginning.
  opened_at timestamptz NOT NULL,
  until     timestamptz NOT NULL,
  PRIMARY KEY (tenant, agent, node)
);
