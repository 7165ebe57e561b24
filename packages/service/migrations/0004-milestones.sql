-- Pages ask by themselves when runs began and what was pushed. Among all that an agent says and does these entries are
-- few, and would be found by a walk through everything. `tenant + 0` keeps the index of that walk away.
CREATE INDEX timeline_milestones ON timeline ((tenant + 0), agent, type, sequence)
  WHERE type IN ('RUN_STARTED', 'PUSH');
