-- oldest reader: 2
-- The process that appended to the log of a key last, as the number that it has in the table of
-- processes: what is put to the key is reserved for it for a moment. A process without a number
-- is of a program that knows of no holders, one with 0 does not listen.
ALTER TABLE {schema}.keys ADD COLUMN holder int8;
ALTER TABLE {schema}.processes ADD COLUMN number int8;
ALTER TABLE {schema}.processes ADD COLUMN backend int4; -- of its listening connection, at the server
