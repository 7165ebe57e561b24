-- Codes that sign a browser in, each once and at any node. A code is stored as its hash, belongs to the key that asked
-- for it, and ends with it.
CREATE TABLE sign_in_codes (
  tenant     int         NOT NULL,
  hash       bytea       NOT NULL,
  key_id     text        NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (tenant, hash),
  FOREIGN KEY (tenant, key_id) REFERENCES keys (tenant, key_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX sign_in_codes_by_hash ON sign_in_codes (hash);
