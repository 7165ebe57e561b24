-- The fingerprint of the service secret with which the last node started.
-- compatible since: 1
CREATE TABLE service_secret (
  only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  fingerprint text    NOT NULL
);
