-- A page of a list, or a count that reads each record. Each status of the query has an index,
-- and a cursor on it; the cursors are merged by time, then by member.
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
local afterTime, afterMember = nil, nil
if arg() == '1' then
  afterTime, afterMember = num(), arg()
end
local prefix, limit, budget, maxBytes = arg(), num(), num(), num()
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

-- less compares bytes: the operator of Lua depends on the locale of the server.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- rank returns how many members of an index are before a position, or also at it if inclusive.
local function rank(z, time, member, inclusive)
  local lo, hi = call('ZCOUNT', z, '-inf', low(time)), call('ZCOUNT', z, '-inf', high(time))
  while lo < hi do
    local mid = math.floor((lo + hi) / 2)
    local m = call('ZRANGE', z, mid, mid)[1]
    if less(m, member) or inclusive and m == member then
      lo = mid + 1
    else
      hi = mid
    end
  end
  return lo
end

-- open returns a cursor over the members of an index that are in the range of the query.
local function open(z)
  local s = {z = z, at = 0, list = {}, i = 0}
  s.first = call('ZCOUNT', z, '-inf', low(from))
  s.last = call('ZCOUNT', z, '-inf', low(to)) - 1
  if afterTime and descending then
    s.last = math.min(s.last, rank(z, afterTime, afterMember, false) - 1)
  elseif afterTime then
    s.first = math.max(s.first, rank(z, afterTime, afterMember, true))
  end
  return s
end

-- step moves a cursor to its next member.
local chunk = math.min(limit, 200)
local function step(s)
  s.i = s.i + 2
  if s.i > #s.list then
    if s.first > s.last then
      s.member = nil
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
  s.member, s.time = s.list[s.i - 1], tonumber(s.list[s.i])
end

local function before(a, b)
  if a.time ~= b.time then
    return descending ~= (a.time < b.time)
  end
  return descending ~= less(a.member, b.member)
end

-- idOf returns the ID of a member: without a tenant in the query, its tenant comes before it.
local function idOf(member)
  if tenant then
    return member
  end
  return sub(member, 3 + unpackStruct('>I2', member))
end

-- matches checks the ID, the name and the tags of a record, which are in no index.
local function matches(rid, member)
  if prefix ~= '' and sub(idOf(member), 1, #prefix) ~= prefix then
    return false
  end
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
local found, size, scanned, heads = {}, 0, 0, {}
for _, status in ipairs(statuses) do
  local s = open(root .. status)
  step(s)
  if s.member then
    heads[#heads + 1] = s
  end
end
local counted, lastMember, lastTime = 0, afterMember or '', afterTime or 0
while #heads > 0 do
  local best = 1
  for i = 2, #heads do
    if before(heads[i], heads[best]) then
      best = i
    end
  end
  local s = heads[best]
  if counted >= limit or scanned >= budget then
    return {1, found, lastMember, lastTime, counted, scanned, changes}
  end
  local rid = lead .. s.member
  if matches(rid, s.member) then
    if mode == 'list' then
      local raw = call('GET', P .. 'r' .. rid)
      local statusLength = unpackStruct('>I2', raw, 17)
      local length = #raw - 22 - statusLength - unpackStruct('>I4', raw, 19 + statusLength)
      if size + length > maxBytes and #found > 0 then
        return {1, found, lastMember, lastTime, counted, scanned, changes}
      end
      size = size + length
      found[#found + 1] = rid
      found[#found + 1] = raw
    end
    counted = counted + 1
  end
  scanned = scanned + 1
  lastMember, lastTime = s.member, s.time
  step(s)
  if not s.member then
    table.remove(heads, best)
  end
end
return {0, found, lastMember, lastTime, counted, scanned, changes}
