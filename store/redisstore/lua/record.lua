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

-- The two indexes: by kind and status, and by kind, tenant and status.
local function strands(rid, status)
  local kind, tenant, id = parts(rid)
  local ofKind = short(kind)
  return P .. 'j' .. ofKind .. status, long(tenant) .. id, P .. 'i' .. ofKind .. long(tenant) .. status, id, P .. 's' .. kind
end

local listed = {} -- the statuses that are known to be noted

local function unlist(rid, status)
  local all, place, own, id, statuses = strands(rid, status)
  call('ZREM', all, place)
  call('ZREM', own, id)
  if call('EXISTS', all) == 0 then
    listed[all] = nil
    call('SREM', statuses, status)
  end
end

local function enlist(rid, time, status)
  local all, place, own, id, statuses = strands(rid, status)
  call('ZADD', all, time, place)
  call('ZADD', own, time, id)
  if not listed[all] then
    listed[all] = true
    call('SADD', statuses, status)
  end
end

local function setRecord(rid, version, time, status, rest, oldVersion, oldTime, oldStatus)
  if oldVersion > 0 and oldStatus ~= status then
    unlist(rid, oldStatus)
  end
  call('SET', P .. 'r' .. rid, pack('>I8I8I2', version, time, #status) .. status .. rest)
  if oldVersion == 0 or oldStatus ~= status or oldTime ~= time then
    enlist(rid, time, status)
  end
end

local function putRecord(rid, time, status, rest)
  local version, oldTime, oldStatus = recordHead(rid)
  setRecord(rid, version + 1, time, status, rest, version, oldTime, oldStatus)
end

local function deleteRecord(rid)
  local version, _, status = recordHead(rid)
  if version > 0 then
    unlist(rid, status)
    call('DEL', P .. 'r' .. rid)
  end
end
