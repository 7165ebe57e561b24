-- Budgets: the own one of an agent, what runs are covered for, what is taken of each, and who waits for one.
-- compatible since: 1
ALTER TABLE agents ADD COLUMN budget_usd float8;
-- Up to what cost a run is covered, by the key of a budget.
ALTER TABLE runs ADD COLUMN credits jsonb;

CREATE TABLE budget_ledgers (
  tenant    int         NOT NULL REFERENCES tenants,
  -- `budget/NAME` or `agent/ID`.
  key       text        NOT NULL,
  -- The beginning of the window.
  starts_at timestamptz NOT NULL,
  -- What was spent in it, and what is reserved for live runs.
  taken     float8      NOT NULL,
  -- False when more would be taken than the budget has: then nothing of the transaction is stored.
  is_kept   boolean     NOT NULL DEFAULT true CONSTRAINT budget_kept CHECK (is_kept),
  PRIMARY KEY (tenant, key)
) WITH (fillfactor = 50);

-- Agents with the reason BUDGET.
CREATE TABLE budget_waits (
  tenant int         NOT NULL,
  agent  uuid        NOT NULL,
  key    text        NOT NULL,
  need   float8      NOT NULL,
  since  timestamptz NOT NULL,
  PRIMARY KEY (tenant, key, agent)
);
CREATE UNIQUE INDEX budget_waits_of_agents ON budget_waits (tenant, agent);
