-- A claim. First the leases that have ended are ended, and the messages whose time to live
-- has ended are handed back to go to quarantine.
local atOnce = 500
local w = wanted()
local ended = call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, atOnce)
if #ended > 0 then
  evenIfFull()
  load(ended)
  for _, id in ipairs(ended) do
    flush(key(id))
  end
  drain()
end
-- While the store is kept for one process nothing goes to quarantine by itself.
local due = owner == me and {} or call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, maxSpent)
for _, member in ipairs(due) do
  local sid, hi, lo = sub(member, 1, 8), byte(member, 9, 10)
  local mid, id = sub(member, 11, 10 + hi * 256 + lo), sub(member, 11 + hi * 256 + lo)
  local k = key(id)
  local m = find(k, mid)
  if m and m[1] == sid and k.r == '' then
    spend(k, sid .. mid, m, 0, 'expired')
  else
    call('ZREM', expiries, member) -- it is not there, which cannot be
  end
  if replied >= maxReply then
    break
  end
end
if #ended == atOnce then
  w.more = true
elseif #spent == 0 then
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
