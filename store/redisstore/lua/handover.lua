-- Somebody in the caller's process waits for what this may have made ready, or wants to know
-- whether anything is. Most commits are without: what claims need takes time to define, so
-- it is in no other script.
local handed, wants, due, expiry = {}, {}, 0, -1
for i = 1, num() do
  local w = wanted()
  wants[i] = w
  claims, spent = {}, {}
  w.taken = handOver(w)
  w.claims, w.spent = claims, spent
end
writeAll()
for _, w in ipairs(wants) do
  if not w.taken then
    claims, spent, w.next = w.claims, w.spent, nil
    claim(w)
    if not w.more then
      taken(w)
    end
  end
end
drain()
-- Leases that have ended and messages that expire are for a claim to see to.
local ends = tonumber(call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2] or nil)
local expires = owner ~= me and tonumber(call('ZRANGE', expiries, 0, 0, 'WITHSCORES')[2] or nil)
if ends and ends <= now or expires and expires <= now then
  due = 1
end
expiry = expires or -1
for i, w in ipairs(wants) do
  later(w, ends)
  handed[i] = {now, w.next or -1, w.more and 1 or 0, w.claims, w.spent, -1}
end
