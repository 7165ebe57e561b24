-- The last sign-ins through a provider, accepted and refused, so that an admin sees which claims arrived and which rule
-- matched. The id is that of the attempt, so that none completes twice.
-- compatible since: 1
CREATE TABLE sign_ins (
  tenant         int         NOT NULL REFERENCES tenants,
  id             uuid        NOT NULL,
  -- The document of the kind sign-in.
  name           text        NOT NULL,
  at             timestamptz NOT NULL,
  outcome        text        NOT NULL,
  -- Why it was refused or failed.
  reason         text        NOT NULL DEFAULT '',
  owner_provider text        NOT NULL,
  account        text        NOT NULL DEFAULT '',
  display_name   text        NOT NULL DEFAULT '',
  subject        text        NOT NULL DEFAULT '',
  role           text        NOT NULL DEFAULT '',
  rule           json,
  claims         json,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX sign_ins_by_name ON sign_ins (tenant, name, at);
