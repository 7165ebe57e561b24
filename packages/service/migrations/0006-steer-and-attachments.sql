-- Messages that are added to a running turn, and images of messages.
-- compatible since: 1

-- The batch whose turn the message is to be added to, and the ids of its images.
ALTER TABLE follow_ups ADD COLUMN steer_batch int, ADD COLUMN attachment_ids json;

-- The id derives from the content.
CREATE TABLE attachments (
  tenant       int         NOT NULL,
  agent        uuid        NOT NULL,
  id           text        NOT NULL,
  media_type   text        NOT NULL,
  bytes        int         NOT NULL,
  content      bytea       NOT NULL,
  -- When it was last uploaded, named by a message or given to a run; and when it was first given to a run.
  used_at      timestamptz NOT NULL,
  delivered_at timestamptz,
  PRIMARY KEY (tenant, agent, id),
  FOREIGN KEY (tenant, agent) REFERENCES agents (tenant, id)
);
-- Images are compressed already.
ALTER TABLE attachments ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX attachments_old ON attachments (used_at);
