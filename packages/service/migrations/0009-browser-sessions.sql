-- Who is signed in with a browser. The secret in the cookie is stored as its hash. A session belongs to the key that
-- signed in, and ends with it.
CREATE TABLE browser_sessions (
  tenant     int         NOT NULL,
  id         uuid        NOT NULL,
  key_id     text        NOT NULL,
  hash       bytea       NOT NULL,
  user_agent text        NOT NULL,
  created_at timestamptz NOT NULL,
  seen_at    timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (tenant, id),
  FOREIGN KEY (tenant, key_id) REFERENCES keys (tenant, key_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX browser_sessions_by_hash ON browser_sessions (hash);
CREATE UNIQUE INDEX browser_sessions_by_id ON browser_sessions (id);
CREATE INDEX browser_sessions_by_key ON browser_sessions (tenant, key_id, seen_at);
