-- A claim. First it ends the leases that have expired, and returns the messages whose time
-- to live is over, to be quarantined by the client.
local atOnce = 500
local w = readRequest()
local ended = call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, atOnce)
if #ended > 0 then
  evenIfFull()
  load(ended)
  for _, id in ipairs(ended) do
    flush(key(id))
  end
  drain()
end
-- While one process holds the store exclusively, nothing is quarantined on its own.
local due = owner == me and {} or call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, maxQuarantine)
for _, member in ipairs(due) do
  local sid, hi, lo = sub(member, 1, 8), byte(member, 9, 10)
  local mid, id = sub(member, 11, 10 + hi * 256 + lo), sub(member, 11 + hi * 256 + lo)
  local k = key(id)
  local m = find(k, mid)
  if m and m[1] == sid and k.r == '' then
    quarantineLater(k, sid .. mid, m, 0, 'expired')
  else
    call('ZREM', expiries, member) -- no message for it: does not happen in a consistent store
  end
  if replied >= maxReply then
    break
  end
end
if #ended == atOnce then
  w.more = true
elseif #quarantined == 0 then
  claim(w)
  drain()
  later(w, tonumber(call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2] or nil))
  if owner ~= me then
    soonest = tonumber(call('ZRANGE', expiries, 0, 0, 'WITHSCORES')[2] or nil)
  end
end
if #claims > 0 or #ended > 0 then
  rememberChanges()
end
return claimed(w)
