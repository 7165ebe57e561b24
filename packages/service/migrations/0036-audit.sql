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
