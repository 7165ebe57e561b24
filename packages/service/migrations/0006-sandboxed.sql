-- Whether the runner of the agent's latest run has a sandbox; null before the first run.
ALTER TABLE agents ADD COLUMN sandboxed boolean;
