-- oldest reader: 2
-- The version of the directory of shards that a process goes by. A process that has acknowledged
-- one commits nothing unless its row says so: see store.Movable.
ALTER TABLE {schema}.processes ADD COLUMN acked int8 NOT NULL DEFAULT 0;
