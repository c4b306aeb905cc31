-- Records. A record is a string that begins with its version, its time and its status, so
-- that these can be read without the rest. It is read once, and what it has become is
-- written by flushRecords.
local records, changed = {}, {}

-- record is what is known of a record: its version, or 0 if it is not there, its time and
-- its status. v0, t0 and s0 are what the server has.
local function record(rid)
  local r = records[rid]
  if r then
    return r
  end
  local name = P .. 'r' .. rid
  local raw = call('GETRANGE', name, 0, 127)
  if raw == '' then
    r = {rid = rid, name = name, v = 0, v0 = 0, raw = false, dirty = false}
  else
    local version, time, length = unpackStruct('>I8I8I2', raw)
    if length > 110 then
      raw = call('GETRANGE', name, 0, 17 + length)
    end
    local status = sub(raw, 19, 18 + length)
    r = {rid = rid, name = name, v = version, t = time, s = status, v0 = version, t0 = time, s0 = status, raw = false, dirty = false}
  end
  records[rid] = r
  return r
end

local function note(r)
  if not r.dirty then
    r.dirty = true
    changed[#changed + 1] = r
  end
end

local function setRecord(r, version, time, status, rest)
  r.v, r.t, r.s = version, time, status
  r.raw = pack('>I8I8I2', version, time, #status) .. status .. rest
  note(r)
end

local function deleteRecord(r)
  if r.v > 0 then
    r.v, r.raw = 0, false
    note(r)
  end
end

-- indexes are the two by which lists find a record, without the status that their names end
-- with, and its member in each: by kind, and by kind and tenant. The last is the set of the
-- statuses of its kind.
local function indexes(rid)
  local kind = 1 + byte(rid, 1)
  local hi, lo = byte(rid, kind + 1, kind + 2)
  local tenant = kind + 2 + hi * 256 + lo
  return P .. 'j' .. sub(rid, 1, kind), sub(rid, kind + 1), P .. 'i' .. sub(rid, 1, tenant), sub(rid, tenant + 1), P .. 's' .. sub(rid, 2, kind)
end

-- flushRecords collects the writes of changed records and of their indexes. It returns the
-- statuses whose index may be empty afterwards, for unlist.
local function flushRecords()
  local left, listed = {}, {}
  for i = 1, #changed do
    local r = changed[i]
    if r.v == 0 then
      dels[#dels + 1] = r.name
    else
      sets[#sets + 1] = r.name
      sets[#sets + 1] = r.raw
    end
    if (r.v > 0 or r.v0 > 0) and not (r.v > 0 and r.v0 > 0 and r.s == r.s0 and r.t == r.t0) then
      local all, member, own, id, statuses = indexes(r.rid)
      if r.v0 > 0 and (r.v == 0 or r.s ~= r.s0) then
        local old = all .. r.s0
        zrem(old, member)
        zrem(own .. r.s0, id)
        left[old] = {statuses, r.s0}
      end
      if r.v > 0 then
        local name, at = all .. r.s, text(r.t)
        zadd(name, at, member)
        zadd(own .. r.s, at, id)
        if not listed[name] then
          listed[name] = true
          call('SADD', statuses, r.s)
        end
      end
    end
    r.v0, r.t0, r.s0, r.raw, r.dirty = r.v, r.t, r.s, false, false
  end
  changed = {}
  return left
end

-- unlist removes statuses that no record has any more.
local function unlist(left)
  for name, status in pairs(left) do
    if call('EXISTS', name) == 0 then
      call('SREM', status[1], status[2])
    end
  end
end

-- writeAll writes all changed keys and records.
local function writeAll()
  local left = flushRecords()
  flushAll()
  unlist(left)
end
