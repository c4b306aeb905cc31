-- oldest reader: 2
-- For lists by what IDs begin with, and by tags. An ID has 1,024 bytes at most, a tag 2,050: both
-- fit into an index. Most records have no tags, and cost the second index nothing. Its entries are
-- not gathered first: a search would read all that were gathered.
CREATE INDEX records_id ON {schema}.records (kind, id);
CREATE INDEX records_tags ON {schema}.records USING gin (tags) WITH (fastupdate = off) WHERE tags <> '{}';
