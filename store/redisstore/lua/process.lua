-- The list of processes that have the store open, by the server's own clock. A process
-- without a heartbeat for the timeout is taken off. One process may hold the store exclusively.
-- The header says how many segments the store has, if there are several.
local verb, me, format, patience, segments = arg(), arg(), arg(), num(), arg()
local t = call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local meta = call('HMGET', P .. 'meta', 'format', 'owner', 'owned', 'segments')
local owned = meta[2] and meta[2] ~= me and now < tonumber(meta[3])

if verb == 'enter' then
  if meta[1] and (meta[1] ~= format or (meta[4] or '1') ~= segments) then
    return {'format', meta[1], meta[4] or '1'}
  end
  if owned then
    return {'in use'}
  end
  if not meta[1] then
    call('HSET', P .. 'meta', 'format', format)
    if segments ~= '1' then
      call('HSET', P .. 'meta', 'segments', segments)
    end
  end
  call('ZADD', P .. 'p', now, me)
elseif verb == 'beat' then
  call('ZADD', P .. 'p', now, me)
  call('ZREMRANGEBYSCORE', P .. 'p', '-inf', now - patience)
  if meta[2] == me then
    call('HSET', P .. 'meta', 'owned', now + patience)
  end
elseif verb == 'exclude' then
  call('ZREMRANGEBYSCORE', P .. 'p', '-inf', now - patience)
  call('ZADD', P .. 'p', now, me)
  if owned or call('ZCARD', P .. 'p') > 1 then
    return {'in use'}
  end
  call('HSET', P .. 'meta', 'owner', me, 'owned', now + patience)
else
  if meta[2] == me then
    call('HDEL', P .. 'meta', 'owner', 'owned')
  end
  if verb == 'leave' then
    call('ZREM', P .. 'p', me)
  end
end
return {'ok'}
