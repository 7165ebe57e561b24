-- How many tasks a checklist has, and how many are done: lists show it, and a checklist may have 4 MiB. A trigger counts,
-- because nodes of the previous version write checklists too. Null: not written since.
-- compatible since: 1
ALTER TABLE checklists ADD COLUMN task_count int, ADD COLUMN tasks_done int;

CREATE FUNCTION count_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  SELECT count(*) FILTER (WHERE t ->> 'status' IS DISTINCT FROM 'TASK_STATUS_DELETED'),
    count(*) FILTER (WHERE t ->> 'status' = 'TASK_STATUS_COMPLETED')
  INTO NEW.task_count, NEW.tasks_done
  FROM json_array_elements(CASE json_typeof(NEW.tasks) WHEN 'array' THEN NEW.tasks ELSE '[]' END) t;
  RETURN NEW;
END $$;

CREATE TRIGGER count_tasks BEFORE INSERT OR UPDATE OF tasks ON checklists
FOR EACH ROW EXECUTE FUNCTION count_tasks();
