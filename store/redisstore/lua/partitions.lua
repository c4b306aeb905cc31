-- The round-robin of tenants. A route has the tenants with messages due later, by time, and
-- the tenants with ready messages, by turn. A tenant that was served goes to the end.
local function later(w, at)
  if at and (not w.next or at < w.next) then
    w.next = at
  end
end

-- promoted limits how many tenants one claim promotes: the server serves no other client
-- while a script runs.
local promoted = 1000

-- promote moves up to limit tenants that have become ready to the end of the round-robin, the
-- earliest first.
local function promote(l, limit)
  local due = call('ZRANGEBYSCORE', P .. 't' .. l, '-inf', now, 'LIMIT', 0, limit)
  for i = 1, #due do
    call('ZADD', P .. 'y' .. l, 'NX', turn - 0.5, due[i])
  end
  if #due > 0 then
    many('ZREM', P .. 't' .. l, due)
  end
end

-- head returns the next tenant of a route. A tenant that was served on another route in the
-- meantime has used its turn.
local function head(w, r)
  while true do
    local h = call('ZRANGE', P .. 'y' .. r.partition, 0, 0, 'WITHSCORES')
    if #h == 0 then
      r.tenant = nil
      return
    end
    local at = tonumber(h[2])
    local served = w.several and (w.served[h[1]] or tonumber(call('ZSCORE', P .. 'u' .. w.queue, h[1]) or nil))
    if not served or served <= at then
      r.tenant, r.turn = h[1], at
      return
    end
    call('ZADD', P .. 'y' .. r.partition, served, h[1])
  end
end

-- serve claims keys of the next tenant of a route, and ends its turn.
local function serve(w, r)
  local z, q = P .. 'z' .. r.partition .. r.tenant, short(w.queue) .. long(r.tenant)
  local take = 1
  if w.alone and (w.tenants or call('ZCARD', P .. 'y' .. r.partition) == 1) then
    take = math.min(w.max - #claims, 100)
  end
  local out, all, ids = {}, true, {}
  local members = call('ZRANGEBYSCORE', z, '-inf', nowText, 'LIMIT', 0, take)
  for i = 1, #members do
    ids[i] = q .. sub(members[i], 9)
  end
  load(ids)
  for i = 1, #members do
    local k = keys[ids[i]]
    if replied >= maxReply then
      all = false
      break
    end
    if k.l == r.partition and not claimKey(k, w) and #quarantined > 0 then
      all = false
      break
    end
    -- Also a key that turns out not to be ready: a commit of this script may have changed it,
    -- and flushes it.
    out[#out + 1] = members[i]
    k.inz = ''
    if k.tok then
      flush(k)
    end
  end
  if #out > 0 then
    many('ZREM', z, out)
  end
  if not all then
    return false
  end
  turn = turn + 1
  if w.several then
    w.served[r.tenant] = turn
    call('ZADD', P .. 'u' .. w.queue, turn, r.tenant)
    if turn % 64 == 0 then
      call('ZREMRANGEBYRANK', P .. 'u' .. w.queue, 0, -1025)
    end
  end
  local first = call('ZRANGE', z, 0, 0, 'WITHSCORES')
  local at = tonumber(first[2] or nil)
  if at and at <= now then
    call('ZADD', P .. 'y' .. r.partition, turn, r.tenant)
  else
    call('ZREM', P .. 'y' .. r.partition, r.tenant)
    if at then
      call('ZADD', P .. 't' .. r.partition, at, r.tenant)
    end
  end
  return true
end

-- settle stores when a route has a ready message next.
local function settle(w, r)
  if call('EXISTS', P .. 'y' .. r.partition) == 1 then
    w.more = true
    return
  end
  local first = call('ZRANGE', P .. 't' .. r.partition, 0, 0, 'WITHSCORES')
  if first[2] then
    call('ZADD', P .. 'w' .. w.queue, first[2], r.route)
    if tonumber(first[2]) <= now then
      w.more = true -- a tenant that is not promoted yet
    end
    later(w, tonumber(first[2]))
  else
    call('ZREM', P .. 'w' .. w.queue, r.route)
  end
end

-- firstOf returns when the first key of a tenant in a partition can be claimed, or nil.
local function firstOf(l, tenant)
  return tonumber(call('ZRANGE', P .. 'z' .. l .. tenant, 0, 0, 'WITHSCORES')[2] or nil)
end

-- readyOf returns the tenants of w that have something ready, with the routes that they have it
-- on and their turns. They join the round-robin.
local function readyOf(w, times)
  local found = {}
  for i = 1, #w.routes do
    local l = times[i] and partition(w.queue, w.routes[i])
    for j = 1, l and #w.tenants or 0 do
      local tenant = w.tenants[j]
      local at = firstOf(l, tenant)
      if at and at <= now then
        evenIfFull()
        call('ZADD', P .. 'y' .. l, 'NX', turn - 0.5, tenant)
        call('ZREM', P .. 't' .. l, tenant)
        local served = #w.routes > 1 and tonumber(call('ZSCORE', P .. 'u' .. w.queue, tenant) or nil) or 0
        local at = tonumber(call('ZSCORE', P .. 'y' .. l, tenant))
        found[#found + 1] = {route = w.routes[i], partition = l, tenant = tenant, turn = math.max(served, at)}
      else
        later(w, at)
      end
    end
  end
  return found
end

-- claimLimited leases what is ready for the routes and the tenants of w. It looks at no other
-- tenant. times are when the routes have something.
local function claimLimited(w, times)
  local found = readyOf(w, times)
  local routes = {}
  for _, r in ipairs(found) do
    routes[r.route] = r
  end
  w.several, w.alone, w.served = #w.routes > 1, #found == 1, {}
  while #found > 0 and #claims < w.max and replied < maxReply and #quarantined == 0 do
    local best = 1
    for i = 2, #found do
      if found[i].turn < found[best].turn then
        best = i
      end
    end
    local r = found[best]
    if not serve(w, r) then
      break
    end
    for _, o in ipairs(found) do
      if o.tenant == r.tenant then
        o.turn = turn
      end
    end
    local at = firstOf(r.partition, r.tenant)
    if not at or at > now then
      later(w, at)
      table.remove(found, best)
    end
  end
  if #found > 0 then
    w.more = true
  end
  for _, r in pairs(routes) do
    settle({queue = w.queue}, r)
  end
end

-- claim leases what is ready for the routes of w.
local function claim(w)
  local candidates = {}
  if #w.routes == 0 then
    return
  end
  local times = many('ZMSCORE', P .. 'w' .. w.queue, w.routes)
  if w.tenants then
    return claimLimited(w, times)
  end
  for i = 1, #w.routes do
    local at = tonumber(times[i] or nil)
    if at and at <= now then
      candidates[#candidates + 1] = {route = w.routes[i], partition = partition(w.queue, w.routes[i])}
    else
      later(w, at)
    end
  end
  if #candidates == 0 then
    return
  end
  evenIfFull()
  w.several, w.alone, w.served = #w.routes > 1, #candidates == 1, {}
  local share = math.ceil(promoted / #candidates)
  for _, r in ipairs(candidates) do
    promote(r.partition, share)
    head(w, r)
  end
  while #claims < w.max and replied < maxReply and #quarantined == 0 do
    local best = nil
    for _, r in ipairs(candidates) do
      if r.tenant and w.served[r.tenant] and w.served[r.tenant] > r.turn then
        head(w, r)
      end
      if r.tenant and (not best or r.turn < best.turn) then
        best = r
      end
    end
    if not best or not serve(w, best) then
      break
    end
    head(w, best)
  end
  for _, r in ipairs(candidates) do
    settle(w, r)
  end
end

-- readRequest reads the arguments of a claim.
local function readRequest()
  local w = {queue = arg(), max = num(), messages = num(), attempts = num(), lease = num(), token = arg(), routes = {}}
  for i = 1, num() do
    w.routes[i] = arg()
  end
  local n = num() -- 0: it is not limited to tenants
  if n > 0 then
    w.tenants, w.only = {}, {}
    for i = 1, n do
      w.tenants[i] = arg()
      w.only[w.tenants[i]] = true
    end
  end
  return w
end

-- handOver claims what is ready for w, and then leases the keys that this script has put
-- messages to, without a detour through their partitions. The latter bypasses the
-- round-robin, so it is done only if the routes of w have nothing else ready and w can take
-- all of it. It reports whether w needs no further claim in this script.
local function handOver(w)
  claim(w)
  if w.more or #quarantined > 0 or #w.routes == 0 then
    return true -- more is ready, and a waiting call tries again
  end
  local served, q = {}, short(w.queue)
  for i = 1, #w.routes do
    served[partitionOf(q, w.routes[i])] = true
  end
  local list, times, numbers, sorted, last = {}, {}, {}, true, 0
  for i = 1, #touched do
    local k = touched[i]
    if k.c > 0 and not k.tok and k.r ~= '' and served[k.l] and (not w.only or w.only[named(k)]) then
      local visible, number = visibleAt(k)
      if visible <= now then
        sorted = sorted and number >= last and visible == now
        last = number
        list[#list + 1], times[k], numbers[k] = k, visible, number
      end
    end
  end
  if #list > w.max - #claims then
    return false
  end
  if not sorted then
    table.sort(list, function(a, b) return times[a] < times[b] or times[a] == times[b] and numbers[a] < numbers[b] end)
  end
  local tenants = {}
  for i = 1, #list do
    local k = list[i]
    if replied >= maxReply or not claimKey(k, w) then
      w.more = true -- the rest goes to its partition
      break
    end
    tenants[named(k)] = true
  end
  for tenant in pairs(tenants) do
    turn = turn + 1
    if #w.routes > 1 then
      zadd(P .. 'u' .. w.queue, turn, tenant)
      if turn % 64 == 0 then
        call('ZREMRANGEBYRANK', P .. 'u' .. w.queue, 0, -1025)
      end
    end
  end
  return true
end

local function claimed(w)
  return {now, w.next or -1, w.more and 1 or 0, claims, quarantined, soonest or -1}
end
