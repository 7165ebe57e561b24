-- Values of secrets that were replaced or deleted: runs that have them still mask them.
-- compatible since: 1
CREATE TABLE earlier_values (
  tenant      int         NOT NULL REFERENCES tenants,
  name        text        NOT NULL,
  -- The last generation of the secret that had the value.
  generation  bigint      NOT NULL,
  sealed      bytea       NOT NULL,
  secret_id   text        NOT NULL,
  replaced_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant, name, generation)
);
CREATE INDEX earlier_values_old ON earlier_values (replaced_at);
