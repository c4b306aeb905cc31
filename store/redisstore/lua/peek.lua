-- Whether claims may find something, and when they may the next time: for each of several queues
-- with routes, perhaps limited to tenants. Leases that have ended and messages that have expired are for a claim to handle,
-- whatever it is of. It leases nothing.
local answer = {now}
local always = {call('ZRANGE', P .. 'l', 0, 0, 'WITHSCORES')[2] or false}
if owner ~= me then
  always[2] = call('ZRANGE', P .. 'x', 0, 0, 'WITHSCORES')[2] or false
end

local function earliest(times, n)
  local ready, next = 0, -1
  for i = 1, n do
    local at = tonumber(times[i] or nil)
    if at and at <= now then
      ready = 1
    elseif at and (next < 0 or at < next) then
      next = at
    end
  end
  return ready, next
end

local ended, ending = earliest(always, 2)
for _ = 1, num() do
  local queue, routes = arg(), {}
  for i = 1, num() do
    routes[i] = arg()
  end
  local times = many('ZMSCORE', P .. 'w' .. queue, routes)
  local n, tenants = num(), {}
  for i = 1, n do
    tenants[i] = arg()
  end
  if n > 0 then
    local all = times
    times = {}
    for i = 1, #routes do
      for j = 1, all[i] and n or 0 do
        local first = call('ZRANGE', P .. 'z' .. short(queue) .. long(routes[i]) .. tenants[j], 0, 0, 'WITHSCORES')
        times[#times + 1] = first[2] or false
      end
    end
  end
  local ready, next = earliest(times, #times)
  if ending >= 0 and (next < 0 or ending < next) then
    next = ending
  end
  answer[#answer + 1] = math.max(ready, ended)
  answer[#answer + 1] = next
end
return answer
