-- What was done that is not a catalog write: by whom, to what and when. Sign-ins from the command line, and the keys that
-- they get.
-- compatible since: 1
CREATE TABLE audit (
  tenant        int         NOT NULL REFERENCES tenants,
  -- In whole milliseconds, as in resource_history: pages of both are in the order of this time.
  at            timestamptz NOT NULL,
  id            uuid        NOT NULL,
  actor         text        NOT NULL,
  key_id        text        NOT NULL,
  kind          text        NOT NULL,
  action        text        NOT NULL,
  -- What it was done to: a name of this kind.
  name          text        NOT NULL,
  justification text        NOT NULL,
  details       json        NOT NULL,
  PRIMARY KEY (tenant, at, id)
);
CREATE INDEX audit_by_actor ON audit (tenant, actor, at);

-- Keys that a sign-in from the command line got have the kind `login`, and no resource of the catalog.
ALTER TABLE keys
  ADD COLUMN created_at timestamptz,
  -- What the program that asked for it says of itself.
  ADD COLUMN client text,
  -- Of a key of the kind `login`, that of the key which approved it: `sign-in`, or `token` with the end of the token. A
  -- command line that another one approved has those of that one.
  ADD COLUMN granted_by text,
  ADD COLUMN ends_at timestamptz,
  -- The last use, accurate to a day; it extends the end of a key of the kind `login`.
  ADD COLUMN used_at timestamptz;

-- A command line that waits until a person approves its sign-in. It has no tenant until then. The code that it waits with
-- is stored as its hash; the short one is for the person, and gives access to nothing.
CREATE TABLE device_logins (
  hash       bytea       PRIMARY KEY,
  user_code  text        NOT NULL,
  address    text        NOT NULL,
  client     text        NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  polled_at  timestamptz NOT NULL,
  -- Seconds that it has to wait between two polls.
  pause      int         NOT NULL,
  state      text        NOT NULL,
  -- The key of the person who answered, and the id of the one that the command line gets if it was approved.
  tenant     int,
  key_id     text,
  new_key_id text,
  FOREIGN KEY (tenant, key_id) REFERENCES keys (tenant, key_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX device_logins_by_user_code ON device_logins (user_code);
CREATE INDEX device_logins_by_address ON device_logins (address);
CREATE INDEX device_logins_by_key ON device_logins (tenant, key_id);

-- Codes that an account entered and that do not exist.
CREATE TABLE wrong_codes (
  tenant         int         NOT NULL REFERENCES tenants,
  owner_provider text        NOT NULL,
  account        text        NOT NULL,
  since          timestamptz NOT NULL,
  count          int         NOT NULL,
  PRIMARY KEY (tenant, owner_provider, account)
);
