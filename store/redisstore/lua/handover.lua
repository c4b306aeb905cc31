-- Claims on behalf of the Claim calls that the group has reserved. Most groups have none, and
-- the functions that claims need take time to define, so commits without reservations use a
-- script without this file (plain.lua).
local handed, reservations, due, expiry = {}, {}, 0, -1
for i = 1, num() do
  local w = readRequest()
  reservations[i] = w
  claims, quarantined = {}, {}
  w.taken = handOver(w)
  w.claims, w.quarantined = claims, quarantined
end
writeAll()
for _, w in ipairs(reservations) do
  if not w.taken then
    claims, quarantined, w.next = w.claims, w.quarantined, nil
    claim(w)
    if not w.more and not w.tenants then
      taken(w)
    end
  end
end
drain()
-- Only a claim script ends expired leases and returns expired messages: due says that it
-- should run.
local ends = tonumber(call('ZRANGE', leases, 0, 0, 'WITHSCORES')[2] or nil)
local expires = owner ~= me and tonumber(call('ZRANGE', expiries, 0, 0, 'WITHSCORES')[2] or nil)
if ends and ends <= now or expires and expires <= now then
  due = 1
end
expiry = expires or -1
for i, w in ipairs(reservations) do
  later(w, ends)
  handed[i] = {now, w.next or -1, w.more and 1 or 0, w.claims, w.quarantined, -1}
end
