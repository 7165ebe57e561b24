-- What a delivery is about, such as team/project#12, known once its body was read.
-- compatible since: 1
ALTER TABLE deliveries ADD COLUMN subject text NOT NULL DEFAULT '';
