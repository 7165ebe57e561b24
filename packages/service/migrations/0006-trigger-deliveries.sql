-- A delivery that spawned an agent and is processed again must not be a message to that agent.
-- compatible since: 1

ALTER TABLE triggered_agents ADD COLUMN delivery text NOT NULL DEFAULT '';
