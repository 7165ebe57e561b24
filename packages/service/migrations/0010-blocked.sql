-- Only an agent that is blocked, or out of budget, rests with messages in its queue.
ALTER TABLE agents DROP CONSTRAINT no_stranded_queue;
ALTER TABLE agents ADD CONSTRAINT no_stranded_queue CHECK (
  queued = 0 OR phase IN ('PHASE_PENDING', 'PHASE_RUNNING')
  OR (phase = 'PHASE_WAITING_FOR_INPUT' AND reason IN ('BLOCKED', 'BUDGET'))
);
