-- What one durable commit costs, and nothing else.
INSERT INTO bench_commits VALUES (1);
