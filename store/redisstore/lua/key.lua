-- Keys and their messages. A key is read once, changed here, and written back by flush.
local defaultTTL = 7 * 24 * 3600 * 1000
local bodies, leases, expiries = P .. 'b', P .. 'l', P .. 'x'
local smallBody = 4096 -- a single message up to this size is kept in its key
local keys, touched = {}, {}
local soonest = nil -- when the first of the messages that were put here expires
local ready, readyAt = {}, {} -- the lanes that got something, and when it is ready

local function lane(queue, route)
  return short(queue) .. long(route)
end

-- expiry is the member of expiries for a message: its number, its ID and its key.
local function expiry(place, id)
  return sub(place, 1, 8) .. long(sub(place, 9)) .. id
end

local function endLease(k)
  k.tok, k.u, k.d, k.delivered = nil, nil, nil, nil
end

-- unsingle forgets the single message of a key.
local function unsingle(k)
  k.s, k.sid, k.mid, k.a = nil, nil, nil, 0
end

-- emptied makes a key one that is not there.
local function emptied(k)
  k.r, k.n, k.f, k.g, k.c, k.z, k.m, k.dirty = '', 0, 0, '0', 0, '', false, false
  k.l, k.first, k.looks, k.wh, k.ws = k.queue .. long(''), nil, false, nil, nil
  endLease(k)
  unsingle(k)
end

-- key is the state of a key. A lease that has ended is none. A single message that is
-- small is in s, with all that belongs to it but the attempts.
local function key(id)
  local k = keys[id]
  if k then
    return k
  end
  local hash, ql = P .. 'k' .. id, byte(id, 1)
  local hi, lo = byte(id, ql + 2, ql + 3)
  local tl = ql + 3 + hi * 256 + lo
  local fields = call('HMGET', hash, 'h', 's')
  local h, s = fields[1], fields[2]
  k = {
    id = id, hash = hash, queue = sub(id, 1, ql + 1), t = sub(id, ql + 4, tl), name = sub(id, tl + 1),
    r = '', n = 0, f = 0, g = '0', c = 0, z = '', a = 0, m = false, dirty = false, looks = false,
  }
  if h then
    local v = cmsgpack.unpack(h)
    k.r, k.n, k.f, k.g, k.c, k.z, k.a, k.tok, k.u, k.d = v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10]
    k.wh, k.inu = h, k.u
    if k.z ~= '' then
      k.first = k.z
    end
    if s and s ~= '' then
      local hi, lo = byte(s, 33, 34)
      k.s, k.ws, k.sid, k.mid = s, s, sub(s, 9, 16), sub(s, 35, 34 + hi * 256 + lo)
    else
      k.looks = k.c > 0 -- messages that are not known here may be there
    end
    if k.tok and k.u <= now then
      endLease(k)
    end
  end
  k.l = k.queue .. long(k.r)
  k.inz, k.inl = k.z, k.l -- where it is among the keys to claim; inu is where among the leases
  keys[id] = k
  touched[#touched + 1] = k
  return k
end

-- places is what was delivered with the lease of a key.
local function places(k)
  if k.s then
    return {k.sid .. k.mid}
  end
  return cmsgpack.unpack(k.d)
end

-- delivered is the same as a set.
local function delivered(k)
  if not k.delivered then
    k.delivered = {}
    if k.tok then
      for _, place in ipairs(places(k)) do
        k.delivered[place] = true
      end
    end
  end
  return k.delivered
end

-- singleBody is what is stored of a single message: when it was put, its time to live and
-- its body.
local function singleBody(k)
  return sub(k.s, 17, 32) .. sub(k.s, 35 + #k.mid)
end

-- find is a pending message: its number, how often it was claimed, and the size of its body.
local function find(k, mid)
  if k.s then
    return mid == k.mid and {k.sid, k.a, #k.s - 34 - #mid}
  end
  local m = k.m and k.m[mid]
  if m == nil or not k.m then
    local v = k.looks and call('HGET', k.hash, 'm' .. mid)
    if not v then
      return false
    end
    local sid, attempt, size = unpackStruct('>c8I4I4', v)
    m = {sid, attempt, size}
    k.m = k.m or {}
    k.m[mid] = m
  end
  return m
end

local function setMessage(k, mid, m)
  if k.s then
    k.a = m[2]
    return
  end
  if not k.dirty then
    k.m, k.dirty = k.m or {}, {}
  end
  k.m[mid] = m
  k.dirty[mid] = true
end

-- spill makes a single message one of several.
local function spill(k)
  if not k.s then
    return
  end
  local place, mid, m = k.sid .. k.mid, k.mid, find(k, k.mid)
  call('HSET', bodies, k.sid, singleBody(k))
  call('ZADD', P .. 'o' .. k.id, text(unpackStruct('>I8', k.s)), place)
  if k.tok then
    k.d = cmsgpack.pack({place})
  end
  unsingle(k)
  setMessage(k, mid, m)
end

-- move gives a pending message another time.
local function move(k, mid, m, visible)
  spill(k)
  call('ZADD', P .. 'o' .. k.id, visible, m[1] .. mid)
  call('ZADD', P .. 'v' .. k.l, visible, m[1])
  k.first = nil
end

-- remove takes a message away. A lease that it was delivered with is over.
local function remove(k, mid)
  local sid
  if k.s then
    if mid ~= k.mid then
      return
    end
    sid = k.sid
    endLease(k)
    unsingle(k)
  else
    local m = find(k, mid)
    if not m then
      return
    end
    sid = m[1]
    if k.tok and delivered(k)[sid .. mid] then
      endLease(k)
    end
    call('HDEL', bodies, sid)
    call('ZREM', P .. 'o' .. k.id, sid .. mid)
    setMessage(k, mid, false)
  end
  call('ZREM', P .. 'v' .. k.l, sid)
  if k.r == '' then
    call('ZREM', expiries, expiry(sid .. mid, k.id))
  end
  k.c = k.c - 1
  k.first = nil
end

-- setRoute gives a key a route. No message is visible under it any earlier.
local function setRoute(k, route)
  local l = k.queue .. long(route)
  if k.c > 0 then
    spill(k)
    local old, new = P .. 'v' .. k.l, P .. 'v' .. l
    local list = call('ZRANGE', P .. 'o' .. k.id, 0, -1, 'WITHSCORES')
    for i = 1, #list, 2 do
      local place, visible = list[i], tonumber(list[i + 1])
      local sid = sub(place, 1, 8)
      if visible < now then
        visible = now
        call('ZADD', P .. 'o' .. k.id, visible, place)
      end
      call('ZREM', old, sid)
      call('ZADD', new, visible, sid)
      if k.r == '' then
        call('ZREM', expiries, expiry(place, k.id))
      end
    end
    call('SADD', P .. 'lanes', l)
    k.first = nil
  end
  k.r, k.l = route, l
end

local lanesKnown = {}

-- insert adds a message that is not there.
local function insert(k, mid, visible, putAt, ttl, attempt, body)
  seq = seq + 1
  local sid, at, l = pack('>I8', seq), text(visible), k.l
  call('ZADD', P .. 'v' .. l, at, sid)
  if not lanesKnown[l] then
    lanesKnown[l] = true
    call('SADD', P .. 'lanes', l)
  end
  if k.r == '' then
    local due = putAt + (ttl == 0 and defaultTTL or ttl)
    call('ZADD', expiries, due, expiry(sid .. mid, k.id))
    soonest = math.min(soonest or due, due)
  end
  if k.c == 0 and #body <= smallBody then
    k.s = pack('>I8c8I8I8I2', visible, sid, putAt, ttl, #mid) .. mid .. body
    k.sid, k.mid, k.a, k.c = sid, mid, attempt, 1
    return
  end
  if k.s then
    k.first = sub(k.s, 1, 16)
    spill(k)
  end
  call('HSET', bodies, sid, pack('>I8I8', putAt, ttl) .. body)
  call('ZADD', P .. 'o' .. k.id, at, sid .. mid)
  if k.c == 0 or k.first and visible < unpackStruct('>I8', k.first) then
    k.first = pack('>I8', visible) .. sid
  end
  k.c = k.c + 1
  setMessage(k, mid, {sid, attempt, #body})
end

local function put(k, mid, route, visible, ttl, body)
  if route ~= '' and route ~= k.r then
    setRoute(k, route)
  end
  if k.c == 0 or not find(k, mid) then
    insert(k, mid, visible > now and visible or now, now, ttl, 0, body)
  end
end

-- deleteKey leaves nothing of a key.
local function deleteKey(k)
  if k.s then
    remove(k, k.mid)
  elseif k.c > 0 then
    for _, place in ipairs(call('ZRANGE', P .. 'o' .. k.id, 0, -1)) do
      call('HDEL', bodies, sub(place, 1, 8))
      call('ZREM', P .. 'v' .. k.l, sub(place, 1, 8))
      if k.r == '' then
        call('ZREM', expiries, expiry(place, k.id))
      end
    end
    call('DEL', P .. 'o' .. k.id)
  end
  if k.n > k.f then
    call('DEL', P .. 'e' .. k.id)
  end
  if k.wh then
    call('DEL', k.hash)
  end
  emptied(k)
end

-- enter puts a key into the lane of its route, where claims find it: by the time of its
-- first message, then by the number of it. k.z is both. The times of tenants
-- and routes may be too early, never too late: a claim that looks corrects them.
local function enter(k)
  local l, z = k.l, unpackStruct('>I8', k.z)
  local at = text(z)
  call('ZADD', P .. 'z' .. l .. k.t, at, sub(k.z, 9) .. k.name)
  call('ZADD', P .. 't' .. l, 'LT', at, k.t)
  call('ZADD', P .. 'w' .. sub(k.queue, 2), 'LT', at, k.r)
  if not readyAt[l] then
    ready[#ready + 1] = l
    readyAt[l] = z
  elseif z < readyAt[l] then
    readyAt[l] = z
  end
end

-- flushMessages deletes the messages of several that are gone, and returns what to write of
-- the others.
local function flushMessages(k)
  local set, del = {}, {}
  for mid in pairs(k.dirty) do
    local m = k.m[mid]
    if m then
      set[#set + 1] = 'm' .. mid
      set[#set + 1] = pack('>c8I4I4', m[1], m[2], m[3])
    else
      del[#del + 1] = 'm' .. mid
    end
  end
  if #del > 0 and k.wh then
    many('HDEL', k.hash, del)
  end
  k.dirty = false
  return set
end

-- headOf is what is stored of a key besides its messages and its log.
local function headOf(k)
  if k.tok then
    return cmsgpack.pack({k.r, k.n, k.f, k.g, k.c, k.z, k.a, k.tok, k.u, k.d})
  end
  return cmsgpack.pack({k.r, k.n, k.f, k.g, k.c, k.z, k.a})
end

-- write writes a key back that is there.
local function write(k)
  local h = headOf(k)
  if k.dirty then
    local set = flushMessages(k)
    set[#set + 1], set[#set + 2], set[#set + 3], set[#set + 4] = 'h', h, 's', k.s or ''
    many('HSET', k.hash, set)
  elseif k.s ~= k.ws then
    call('HSET', k.hash, 'h', h, 's', k.s or '')
  elseif h ~= k.wh then
    call('HSET', k.hash, 'h', h)
  end
  k.wh, k.ws = h, k.s
end

-- flush writes a key back: what frees memory first.
local function flush(k)
  local z = ''
  if k.c > 0 and not k.tok and k.r ~= '' then
    z = k.s and sub(k.s, 1, 16) or k.first
    if not z then
      local first = call('ZRANGE', P .. 'o' .. k.id, 0, 0, 'WITHSCORES')
      z = pack('>I8', tonumber(first[2])) .. sub(first[1], 1, 8)
    end
  end
  local moved = z ~= k.inz or k.l ~= k.inl
  if moved and k.inz ~= '' then
    call('ZREM', P .. 'z' .. k.inl .. k.t, sub(k.inz, 9) .. k.name)
  end
  if k.inu and not k.tok then
    call('ZREM', leases, k.id)
    k.inu = nil
  end
  k.z = z
  if k.c == 0 and k.n == 0 and not (k.kept and (k.r ~= '' or k.g ~= '0')) then
    if k.wh then
      call('DEL', k.hash)
    end
    emptied(k)
  else
    write(k)
    if moved and z ~= '' then
      enter(k)
    end
    if k.tok and k.u ~= k.inu then
      call('ZADD', leases, text(k.u), k.id)
      k.inu = k.u
    end
  end
  k.inz, k.inl = z, k.l
end

local function flushAll()
  for i = 1, #touched do
    flush(touched[i])
  end
end
