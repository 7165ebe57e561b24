-- Values of secrets, sealed with a key that is derived from the secret of the service. The secret can be rotated, so a
-- row says which one its sealed value or its nonce belongs to.
-- compatible since: 1
ALTER TABLE resources ADD COLUMN sealed bytea, ADD COLUMN secret_id text;
