-- The text of a document as its author wrote it, with comments. A node of the previous version writes documents without
-- one, so a text counts only while its generation is that of the document.
-- compatible since: 1
ALTER TABLE resources ADD COLUMN text text, ADD COLUMN text_generation bigint;
ALTER TABLE resource_history ADD COLUMN text text;
