-- Messages that are added to a running turn: the batch whose turn it is.
-- compatible since: 1
ALTER TABLE follow_ups ADD COLUMN steer_batch int;
