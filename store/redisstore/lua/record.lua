-- Records. A record is a string that begins with its version, its time and its status, so
-- that these can be read without the rest.
local function recordHead(rid)
  local raw = call('GETRANGE', P .. 'r' .. rid, 0, 1041)
  if raw == '' then
    return 0
  end
  local version, time, length = unpackStruct('>I8I8I2', raw)
  return version, time, sub(raw, 19, 18 + length)
end

-- indexes are the two by which lists find a record, without the status that their names end
-- with, and its place in each: by kind, and by kind and tenant. The last is the set of the
-- statuses of its kind.
local function indexes(rid)
  local kind = 1 + byte(rid, 1)
  local hi, lo = byte(rid, kind + 1, kind + 2)
  local tenant = kind + 2 + hi * 256 + lo
  return P .. 'j' .. sub(rid, 1, kind), sub(rid, kind + 1), P .. 'i' .. sub(rid, 1, tenant), sub(rid, tenant + 1), P .. 's' .. sub(rid, 2, kind)
end

local listed = {} -- the statuses that are known to be noted

local function unlist(all, place, own, id, statuses, status)
  all = all .. status
  call('ZREM', all, place)
  call('ZREM', own .. status, id)
  if call('EXISTS', all) == 0 then
    listed[all] = nil
    call('SREM', statuses, status)
  end
end

local function setRecord(rid, version, time, status, rest, oldVersion, oldTime, oldStatus)
  call('SET', P .. 'r' .. rid, pack('>I8I8I2', version, time, #status) .. status .. rest)
  if oldVersion > 0 and oldStatus == status and oldTime == time then
    return
  end
  local all, place, own, id, statuses = indexes(rid)
  if oldVersion > 0 and oldStatus ~= status then
    unlist(all, place, own, id, statuses, oldStatus)
  end
  local name, at = all .. status, text(time)
  call('ZADD', name, at, place)
  call('ZADD', own .. status, at, id)
  if not listed[name] then
    listed[name] = true
    call('SADD', statuses, status)
  end
end

local function putRecord(rid, time, status, rest)
  local version, oldTime, oldStatus = recordHead(rid)
  setRecord(rid, version + 1, time, status, rest, version, oldTime, oldStatus)
end

local function deleteRecord(rid)
  local version, _, status = recordHead(rid)
  if version > 0 then
    local all, place, own, id, statuses = indexes(rid)
    unlist(all, place, own, id, statuses, status)
    call('DEL', P .. 'r' .. rid)
  end
end
