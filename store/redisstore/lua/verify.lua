-- What contradicts itself in some keys, partitions or records. It answers with what it found,
-- and with how much there was, which the caller adds up.
local what, problems = arg(), {}
local n = {messages = 0, bodies = 0, leases = 0, expiries = 0, partitions = 0}

local function wrong(id, text, ...)
  problems[#problems + 1] = id
  problems[#problems + 1] = string.format(text, ...)
end

-- verifyMessage checks what else is known of a message: its route counts it, and it
-- expires if it has none.
local function verifyMessage(id, q, r, sid, mid, visible, raw)
  n.messages = n.messages + 1
  local putAt, ttl = unpackStruct('>I8I8', raw)
  local due = tonumber(call('ZSCORE', P .. 'x', sid .. long(mid) .. id) or nil)
  local want = r == '' and putAt + (ttl == 0 and 7 * 24 * 3600 * 1000 or ttl) or nil
  if due then
    n.expiries = n.expiries + 1
  end
  if due ~= want then
    wrong(id, 'a message expires at %.0f, want %.0f', due or -1, want or -1)
  end
  if tonumber(call('ZSCORE', P .. 'v' .. short(q) .. long(r), sid) or nil) ~= visible then
    wrong(id, 'a message is not counted for its route, or with another time')
  end
end

local function verifyMessages(id, q, r, c)
  local list = call('ZRANGE', P .. 'o' .. id, 0, -1, 'WITHSCORES')
  local count = call('HLEN', P .. 'n' .. id)
  if #list / 2 ~= c or count ~= c then
    wrong(id, 'it counts %.0f messages, has %.0f of them by ID and %.0f in order', c, count, #list / 2)
  end
  for i = 1, #list, 2 do
    local sid, mid = sub(list[i], 1, 8), sub(list[i], 9)
    local head, raw = call('HGET', P .. 'n' .. id, mid), call('HGET', P .. 'b', sid)
    n.bodies = n.bodies + 1
    if not head or #head ~= 16 or sub(head, 1, 8) ~= sid then
      wrong(id, 'a message in order is not there by its ID')
    elseif not raw or #raw < 16 then
      wrong(id, 'a message has no body')
    else
      local _, _, length = unpackStruct('>c8I4I4', head)
      if #raw ~= 16 + length then
        wrong(id, 'the body of a message has %.0f bytes, want %.0f', #raw - 16, length)
      end
      verifyMessage(id, q, r, sid, mid, tonumber(list[i + 1]), raw)
    end
  end
  return list
end

-- verifySingle does the same for a message that is kept in its key, which has no other.
local function verifySingle(id, q, r, c, s)
  local others = call('ZCARD', P .. 'o' .. id) + call('HLEN', P .. 'n' .. id)
  if c ~= 1 or others > 0 then
    wrong(id, 'it counts %.0f messages, has a single one and %.0f in order', c, others)
  end
  if #s < 34 or #s < 34 + unpackStruct('>I2', sub(s, 33, 34)) then
    wrong(id, 'its single message is too short')
    return {}
  end
  local visible, sid, mid, raw = single(s)
  verifyMessage(id, q, r, sid, mid, visible, raw)
  return {sid .. mid, visible}
end

-- verifyLease checks the end of a lease, and that what was delivered is there.
local function verifyLease(id, token, ends, d, isSingle, list)
  local lease = tonumber(call('ZSCORE', P .. 'l', id) or nil)
  if token then
    n.leases = n.leases + 1
  end
  if lease ~= ends or token and not (d and (d == '') == isSingle) then
    wrong(id, 'its lease ends at %.0f, and is to end at %.0f', ends or -1, lease or -1)
  elseif token and not isSingle then
    local there = {}
    for i = 1, #list, 2 do
      there[list[i]] = true
    end
    for _, member in ipairs(cmsgpack.unpack(d)) do
      if not there[member] then
        wrong(id, 'its lease is of a message that is not there')
      end
    end
  end
end

local function verifyKey(id)
  local h, s = keyHead(id)
  local q, t, name = parts(id)
  local r, length, first, c, token = h[1], h[2], h[3], h[5], h[9] ~= '' and h[9] or nil
  if c == 0 and length == 0 then
    wrong(id, 'it has neither messages nor a log')
  end
  local entries = call('LLEN', P .. 'e' .. id)
  if entries ~= length - first then
    wrong(id, 'its log has %.0f entries, and should have those from %.0f to %.0f', entries, first, length)
  end
  local list = s and verifySingle(id, q, r, c, s) or verifyMessages(id, q, r, c)
  verifyLease(id, token, token and h[10], h[11], s ~= nil, list)
  local z = ''
  if r ~= '' and not token and #list > 0 then
    z = pack('>I8', tonumber(list[2])) .. sub(list[1], 1, 8)
  end
  if z ~= h[6] then
    wrong(id, 'its place among the keys to claim is not that of its first message')
  elseif z ~= '' then
    n.partitions = n.partitions + 1
    if tonumber(call('ZSCORE', P .. 'z' .. short(q) .. long(r) .. t, sub(z, 9) .. name) or nil) ~= tonumber(list[2]) then
      wrong(id, 'it is not among the keys to claim')
    end
  end
end

-- verifyPartition checks that claims find what a tenant has on a route.
local function verifyPartition(id)
  local ql = byte(id, 1)
  local hi, lo = byte(id, ql + 2, ql + 3)
  local q, r, t = sub(id, 2, ql + 1), sub(id, ql + 4, ql + 3 + hi * 256 + lo), sub(id, ql + 4 + hi * 256 + lo)
  local l = short(q) .. long(r)
  local first = tonumber(call('ZRANGE', P .. 'z' .. id, 0, 0, 'WITHSCORES')[2])
  local due = tonumber(call('ZSCORE', P .. 't' .. l, t) or nil)
  if not (due and due <= first) and not call('ZSCORE', P .. 'y' .. l, t) then
    wrong(id, 'the tenant has something to claim, and no turn')
  end
  local route = tonumber(call('ZSCORE', P .. 'w' .. q, r) or nil)
  if not route or route > first then
    wrong(id, 'the route has something to claim, and no time')
  end
end

local function verifyRecord(rid)
  local raw = call('GETRANGE', P .. 'r' .. rid, 0, 1041)
  if #raw < 22 then
    wrong(rid, 'it is too short')
    return
  end
  local version, time, length = unpackStruct('>I8I8I2', raw)
  local status = sub(raw, 19, 18 + length)
  local kind, tenant, id = parts(rid)
  if version < 1 then
    wrong(rid, 'it has version %.0f', version)
  end
  local all = tonumber(call('ZSCORE', P .. 'j' .. short(kind) .. status, long(tenant) .. id) or nil)
  local own = tonumber(call('ZSCORE', P .. 'i' .. short(kind) .. long(tenant) .. status, id) or nil)
  if all ~= time or own ~= time or call('SISMEMBER', P .. 's' .. kind, status) == 0 then
    wrong(rid, 'lists do not find it by its status and time')
  end
end

local verify = {key = verifyKey, partition = verifyPartition, record = verifyRecord}
for _ = 1, num() do
  verify[what](arg())
end
return {problems, n.messages, n.bodies, n.leases, n.expiries, n.partitions}
