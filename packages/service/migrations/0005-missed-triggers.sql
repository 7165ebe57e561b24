-- Labels and assignments whose deliveries never came are found by asking the code host.
-- compatible since: 1

ALTER TABLE hooks
  -- Until when the host was asked, and when it is asked next.
  ADD COLUMN compared_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN next_at timestamptz NOT NULL DEFAULT now() + interval '1 hour';
CREATE INDEX hooks_due ON hooks (tenant, next_at);
