-- A change request is compared with its host by one node at a time.
-- compatible since: 1

ALTER TABLE change_requests
  -- It is being compared; if that never ends, because its node died, it is due again at `next_at`.
  ADD COLUMN is_claimed boolean NOT NULL DEFAULT false;
