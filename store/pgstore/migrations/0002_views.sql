-- For people: names as text where they are UTF-8 and escaped where they are not, times as
-- times. Abide itself does not use any of this.

CREATE FUNCTION {schema}.readable(b bytea) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS
$$
BEGIN
    RETURN convert_from(b, 'UTF8');
EXCEPTION WHEN OTHERS THEN
    RETURN encode(b, 'escape');
END
$$;

CREATE FUNCTION {schema}.moment(ms int8) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$
    SELECT CASE WHEN ms < 253402300800000 THEN to_timestamp(ms / 1000.0) ELSE 'infinity' END
$$;

CREATE VIEW {schema}.queued_keys AS
SELECT {schema}.readable(k.queue)  AS queue,
       {schema}.readable(k.tenant) AS tenant,
       {schema}.readable(k.name)   AS name,
       {schema}.readable(k.route)  AS route,
       k.count                     AS pending,
       CASE WHEN k.route <> '' AND k.count > 0 THEN {schema}.moment(k.first) END AS first_visible,
       CASE WHEN k.token IS NOT NULL THEN {schema}.moment(k.at) END              AS leased_until,
       k.log_first,
       k.log_length,
       k.id
FROM {schema}.keys k;

CREATE VIEW {schema}.pending_messages AS
SELECT {schema}.readable(k.queue)  AS queue,
       {schema}.readable(k.tenant) AS tenant,
       {schema}.readable(k.name)   AS name,
       {schema}.readable(k.route)  AS route,
       {schema}.readable(m.id)     AS message,
       {schema}.moment(m.visible)  AS visible,
       {schema}.moment(m.put)      AS put,
       m.attempt + CASE WHEN k.token IS NOT NULL AND m.seq = ANY (k.delivered) THEN 1 ELSE 0 END AS attempt,
       octet_length(m.body)        AS bytes,
       m.body,
       m.key                       AS key_id
FROM {schema}.all_messages m
JOIN {schema}.keys k ON k.id = m.key;

CREATE VIEW {schema}.readable_records AS
SELECT {schema}.readable(r.kind)   AS kind,
       {schema}.readable(r.tenant) AS tenant,
       {schema}.readable(r.id)     AS id,
       r.version,
       {schema}.readable(r.status) AS status,
       {schema}.readable(r.name)   AS name,
       {schema}.moment(r.time)     AS "time",
       (SELECT jsonb_object_agg({schema}.readable(substring(t FROM 3 FOR 256 * get_byte(t, 0) + get_byte(t, 1))),
                                {schema}.readable(substring(t FROM 3 + 256 * get_byte(t, 0) + get_byte(t, 1))))
        FROM unnest(r.tags) t)     AS tags,
       octet_length(r.body)        AS bytes,
       r.body
FROM {schema}.records r;

CREATE VIEW {schema}.pending_by_route AS
SELECT {schema}.readable(t.queue) AS queue, {schema}.readable(t.route) AS route, sum(t.n)::int8 AS pending
FROM {schema}.tally t
GROUP BY t.queue, t.route
HAVING sum(t.n) <> 0;
