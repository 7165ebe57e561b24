-- When a runner joined and polled last, and its machine: system, freeBytes, totalBytes.
-- compatible since: 1
ALTER TABLE runners ADD COLUMN joined_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN polled_at timestamptz NOT NULL DEFAULT now(), ADD COLUMN machine json NOT NULL DEFAULT '{}';
