-- A page of a list, or a count that looks at each record. The strands are the indexes of
-- the statuses that the query is about, merged by time and place.
local mode, kind, tenant = arg(), arg(), nil
if arg() == '1' then
  tenant = arg()
end
local statuses, names, tags = {}, nil, {}
local all = num()
for i = 1, all do
  statuses[i] = arg()
end
if all == 0 then
  statuses = call('SMEMBERS', P .. 's' .. kind)
end
local count = num()
if count > 0 then
  names = {}
  for _ = 1, count do
    names[arg()] = true
  end
end
for i = 1, num() do
  tags[i] = {arg(), arg()}
end
local from, to, descending = num(), num(), arg() == '1'
local afterTime, afterPlace = nil, nil
if arg() == '1' then
  afterTime, afterPlace = num(), arg()
end
local limit, budget, most = num(), num(), num()
local root = tenant and P .. 'i' .. short(kind) .. long(tenant) or P .. 'j' .. short(kind)
local state = call('HGET', P .. 'meta', 'state')
local changes = state and unpackStruct('>I8', sub(state, 25)) or 0
local lead = short(kind) .. (tenant and long(tenant) or '')

local function low(t)
  return string.format('(%.0f', t)
end

local function high(t)
  return string.format('%.0f', t)
end

-- less compares bytes: the operator of Lua goes by the language of the server.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- rank is how many members of a strand are at or before a place, or only before it.
local function rank(z, time, place, inclusive)
  local lo, hi = call('ZCOUNT', z, '-inf', low(time)), call('ZCOUNT', z, '-inf', high(time))
  while lo < hi do
    local mid = math.floor((lo + hi) / 2)
    local m = call('ZRANGE', z, mid, mid)[1]
    if less(m, place) or inclusive and m == place then
      lo = mid + 1
    else
      hi = mid
    end
  end
  return lo
end

-- open is a strand at its first member, from which it goes on to its last.
local function open(z)
  local s = {z = z, at = 0, list = {}, i = 0}
  s.first = call('ZCOUNT', z, '-inf', low(from))
  s.last = call('ZCOUNT', z, '-inf', low(to)) - 1
  if afterTime and descending then
    s.last = math.min(s.last, rank(z, afterTime, afterPlace, false) - 1)
  elseif afterTime then
    s.first = math.max(s.first, rank(z, afterTime, afterPlace, true))
  end
  return s
end

-- step moves a strand to its next member.
local chunk = math.min(limit, 200)
local function step(s)
  s.i = s.i + 2
  if s.i > #s.list then
    if s.first > s.last then
      s.place = nil
      return
    end
    local n = math.min(chunk, s.last - s.first + 1)
    if descending then
      local size = call('ZCARD', s.z)
      s.list = call('ZREVRANGE', s.z, size - 1 - s.last, size - 1 - s.last + n - 1, 'WITHSCORES')
      s.last = s.last - n
    else
      s.list = call('ZRANGE', s.z, s.first, s.first + n - 1, 'WITHSCORES')
      s.first = s.first + n
    end
    s.i = 2
  end
  s.place, s.time = s.list[s.i - 1], tonumber(s.list[s.i])
end

local function before(a, b)
  if a.time ~= b.time then
    return descending ~= (a.time < b.time)
  end
  return descending ~= less(a.place, b.place)
end

-- matches looks at what the index does not know.
local function matches(rid)
  if not names and #tags == 0 then
    return true
  end
  local raw = call('GETRANGE', P .. 'r' .. rid, 0, 1535) -- status, and mostly all that is needed
  local statusLength = unpackStruct('>I2', raw, 17)
  local size = unpackStruct('>I4', raw, 19 + statusLength)
  if #raw < 22 + statusLength + size then
    raw = call('GETRANGE', P .. 'r' .. rid, 0, 21 + statusLength + size)
  end
  local at = 23 + statusLength
  local function text()
    local n = unpackStruct('>I2', raw, at)
    at = at + 2 + n
    return sub(raw, at - n, at - 1)
  end
  local name = text()
  if names and not names[name] then
    return false
  end
  local n, has = unpackStruct('>I2', raw, at), {}
  at = at + 2
  for _ = 1, n do
    local tag = text()
    has[tag] = text()
  end
  for _, t in ipairs(tags) do
    if has[t[1]] ~= t[2] then
      return false
    end
  end
  return true
end

if to <= from then
  return {0, {}, '', 0, 0, 0, changes}
end
local found, size, passed, heads = {}, 0, 0, {}
for _, status in ipairs(statuses) do
  local s = open(root .. status)
  step(s)
  if s.place then
    heads[#heads + 1] = s
  end
end
local counted, lastPlace, lastTime = 0, afterPlace or '', afterTime or 0
while #heads > 0 do
  local best = 1
  for i = 2, #heads do
    if before(heads[i], heads[best]) then
      best = i
    end
  end
  local s = heads[best]
  if counted >= limit or passed >= budget then
    return {1, found, lastPlace, lastTime, counted, passed, changes}
  end
  local rid = lead .. s.place
  if matches(rid) then
    if mode == 'list' then
      local raw = call('GET', P .. 'r' .. rid)
      local statusLength = unpackStruct('>I2', raw, 17)
      local length = #raw - 22 - statusLength - unpackStruct('>I4', raw, 19 + statusLength)
      if size + length > most and #found > 0 then
        return {1, found, lastPlace, lastTime, counted, passed, changes}
      end
      size = size + length
      found[#found + 1] = rid
      found[#found + 1] = raw
    end
    counted = counted + 1
  end
  passed = passed + 1
  lastPlace, lastTime = s.place, s.time
  step(s)
  if not s.place then
    table.remove(heads, best)
  end
end
return {0, found, lastPlace, lastTime, counted, passed, changes}
