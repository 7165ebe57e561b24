-- Lists at any depth put nested agents beside roots, which have such indexes already. `tenant + 0` again keeps others
-- away: those who look for the children of one agent.
CREATE INDEX agents_nested ON agents ((tenant + 0), id DESC) WHERE parent IS NOT NULL;
CREATE INDEX agents_live_nested ON agents ((tenant + 0), id DESC) WHERE parent IS NOT NULL AND ended_at IS NULL;
CREATE INDEX agents_own_nested ON agents ((tenant + 0), owner_provider, account, id DESC) WHERE parent IS NOT NULL;
CREATE INDEX agents_own_live_nested ON agents ((tenant + 0), owner_provider, account, id DESC)
  WHERE parent IS NOT NULL AND ended_at IS NULL;

-- What ended lately, without what ended long ago. Every account is not null: saying so keeps lists of all accounts away
-- from the index for one of them.
CREATE INDEX agents_ended_since ON agents (tenant, ended_at) WHERE current AND ended_at IS NOT NULL;
CREATE INDEX agents_own_ended_since ON agents ((tenant + 0), owner_provider, account, ended_at)
  WHERE current AND ended_at IS NOT NULL AND account IS NOT NULL;

-- Trees. In the order of paths, what stands below an agent is one stretch of its tree. A root says its tenant; with the
-- tenant in front, the planner would take these indexes for others while the table is empty.
DROP INDEX agents_tree;
CREATE INDEX agents_tree ON agents (root, path COLLATE "C") WHERE parent IS NOT NULL;
CREATE INDEX agents_live_tree ON agents (root) WHERE parent IS NOT NULL AND ended_at IS NULL;
CREATE INDEX agents_ended_tree ON agents (root, ended_at) WHERE parent IS NOT NULL AND ended_at IS NOT NULL;
