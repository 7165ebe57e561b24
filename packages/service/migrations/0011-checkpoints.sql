-- What an agent's runner saved of its session and of its work that no remote has. One without `completed_at` is still
-- being saved, and does not count.
CREATE TABLE checkpoints (
  tenant       int         NOT NULL,
  agent        uuid        NOT NULL,
  id           uuid        NOT NULL,
  run          int         NOT NULL,
  final        boolean     NOT NULL DEFAULT false,
  parts        int         NOT NULL DEFAULT 0,
  bytes        bigint      NOT NULL DEFAULT 0,
  completed_at timestamptz,
  PRIMARY KEY (tenant, agent, id),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
-- For the sum over a tenant.
CREATE INDEX checkpoint_bytes ON checkpoints (tenant) INCLUDE (bytes);

CREATE TABLE checkpoint_parts (
  tenant     int   NOT NULL,
  agent      uuid  NOT NULL,
  checkpoint uuid  NOT NULL,
  part       int   NOT NULL,
  content    bytea NOT NULL,
  PRIMARY KEY (tenant, agent, checkpoint, part),
  FOREIGN KEY (tenant, agent, checkpoint) REFERENCES checkpoints (tenant, agent, id) ON DELETE CASCADE
);
-- It comes compressed.
ALTER TABLE checkpoint_parts ALTER COLUMN content SET STORAGE EXTERNAL;

-- A session that was saved before is a checkpoint without work.
INSERT INTO checkpoints (tenant, agent, id, run, final, parts, bytes, completed_at)
SELECT tenant, agent, gen_random_uuid(), run, true, (octet_length(archive) + 1048575) / 1048576,
  octet_length(archive), saved_at
FROM sessions WHERE octet_length(archive) > 0;

INSERT INTO checkpoint_parts (tenant, agent, checkpoint, part, content)
SELECT c.tenant, c.agent, c.id, p.part, substring(s.archive FROM p.part * 1048576 + 1 FOR 1048576)
FROM checkpoints c JOIN sessions s USING (tenant, agent), generate_series(0, c.parts - 1) AS p (part);

DROP TABLE sessions;

ALTER TABLE agents ADD COLUMN unpushed jsonb, ADD COLUMN checkpoint_at timestamptz;
UPDATE agents a SET checkpoint_at = c.completed_at
FROM checkpoints c WHERE c.tenant = a.tenant AND c.agent = a.id;

-- What the branch changed as it was pushed, and as the working tree has it.
ALTER TABLE diffs ADD COLUMN working_tree boolean NOT NULL DEFAULT false;
ALTER TABLE diffs DROP CONSTRAINT diffs_pkey;
ALTER TABLE diffs ADD PRIMARY KEY (tenant, agent, repo, working_tree);
