-- Keys and their messages. A key is read once, changed here, and written back by flush.
local defaultTTL = 7 * 24 * 3600 * 1000
local bodies, leases, expiries = P .. 'b', P .. 'l', P .. 'x'
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

-- note makes a key's state what flush compares with.
local function note(k)
  k.was = {r = k.r, n = k.n, f = k.f, g = k.g, tok = k.tok, u = k.u, d = k.d, c = k.c, z = k.z}
end

local function endLease(k)
  k.tok, k.u, k.d, k.delivered = nil, nil, nil, nil
end

local function fresh(k)
  k.r, k.n, k.f, k.g, k.c, k.z, k.m, k.dirty = '', 0, 0, '0', 0, nil, {}, {}
  k.first = nil
  endLease(k)
end

-- key is the state of a key. A lease that has ended is none.
local function key(id)
  local k = keys[id]
  if k then
    return k
  end
  local h = call('HMGET', P .. 'k' .. id, 'r', 'n', 'f', 'g', 't', 'u', 'd', 'c', 'z')
  k = {id = id, m = {}, dirty = {}}
  k.q, k.t, k.name = parts(id)
  k.r, k.n, k.f, k.g = h[1] or '', tonumber(h[2] or 0), tonumber(h[3] or 0), h[4] or '0'
  k.tok, k.u, k.d, k.c, k.z = h[5] or nil, tonumber(h[6] or nil), h[7] or nil, tonumber(h[8] or 0), h[9] or nil
  k.first = k.z
  k.looks = k.c > 0 -- whether messages that are not known here may be there
  note(k)
  if k.tok and k.u <= now then
    endLease(k)
  end
  keys[id] = k
  touched[#touched + 1] = k
  return k
end

-- delivered is the set of what was delivered with the lease of a key, by place.
local function delivered(k)
  if not k.delivered then
    k.delivered = {}
    if k.tok then
      for _, place in ipairs(cmsgpack.unpack(k.d)) do
        k.delivered[place] = true
      end
    end
  end
  return k.delivered
end

-- find is a pending message: its number, how often it was claimed, and the size of its body.
local function find(k, mid)
  local m = k.m[mid]
  if m == nil then
    local v = k.looks and call('HGET', P .. 'k' .. k.id, 'm' .. mid)
    m = false
    if v then
      local sid, attempt, size = unpackStruct('>c8I4I4', v)
      m = {sid, attempt, size}
    end
    k.m[mid] = m
  end
  return m
end

local function setMessage(k, mid, m)
  k.m[mid] = m
  k.dirty[mid] = true
end

-- move gives a pending message another time.
local function move(k, mid, m, visible)
  call('ZADD', P .. 'o' .. k.id, visible, m[1] .. mid)
  call('ZADD', P .. 'v' .. lane(k.q, k.r), visible, m[1])
  k.first = nil
end

-- remove takes a message away. A lease that it was delivered with is over.
local function remove(k, mid)
  local m = find(k, mid)
  if not m then
    return
  end
  local place = m[1] .. mid
  if k.tok and delivered(k)[place] then
    endLease(k)
  end
  call('HDEL', bodies, m[1])
  call('ZREM', P .. 'o' .. k.id, place)
  call('ZREM', P .. 'v' .. lane(k.q, k.r), m[1])
  if k.r == '' then
    call('ZREM', expiries, expiry(place, k.id))
  end
  setMessage(k, mid, false)
  k.c = k.c - 1
  k.first = nil
end

-- setRoute gives a key a route. No message is visible under it any earlier.
local function setRoute(k, route)
  if k.c > 0 then
    local old, new = P .. 'v' .. lane(k.q, k.r), P .. 'v' .. lane(k.q, route)
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
    call('SADD', P .. 'lanes', lane(k.q, route))
    k.first = nil
  end
  k.r = route
end

local lanesKnown = {}

-- insert adds a message that is not there.
local function insert(k, mid, visible, putAt, ttl, attempt, body)
  seq = seq + 1
  local sid, l = pack('>I8', seq), lane(k.q, k.r)
  call('HSET', bodies, sid, pack('>I8I8', putAt, ttl) .. body)
  call('ZADD', P .. 'o' .. k.id, visible, sid .. mid)
  call('ZADD', P .. 'v' .. l, visible, sid)
  if not lanesKnown[l] then
    lanesKnown[l] = true
    call('SADD', P .. 'lanes', l)
  end
  if k.r == '' then
    local at = putAt + (ttl == 0 and defaultTTL or ttl)
    call('ZADD', expiries, at, expiry(sid .. mid, k.id))
    soonest = math.min(soonest or at, at)
  end
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
  if not find(k, mid) then
    insert(k, mid, math.max(now, visible), now, ttl, 0, body)
  end
end

-- deleteKey leaves nothing of a key.
local function deleteKey(k)
  if k.c > 0 then
    local v = P .. 'v' .. lane(k.q, k.r)
    for _, place in ipairs(call('ZRANGE', P .. 'o' .. k.id, 0, -1)) do
      call('HDEL', bodies, sub(place, 1, 8))
      call('ZREM', v, sub(place, 1, 8))
      if k.r == '' then
        call('ZREM', expiries, expiry(place, k.id))
      end
    end
    call('DEL', P .. 'o' .. k.id)
  end
  if k.n > k.f then
    call('DEL', P .. 'e' .. k.id)
  end
  if k.was.c > 0 or k.was.n > 0 then
    call('DEL', P .. 'k' .. k.id)
  end
  fresh(k)
  k.z = k.was.z
  k.looks = false
  k.rewrite = true
end

-- enter puts a key into the lane of its route, where claims find it: by the time of its
-- first message, then by the number of it. k.z is both. The times of tenants
-- and routes may be too early, never too late: a claim that looks corrects them.
local function enter(k)
  local l, z = lane(k.q, k.r), unpackStruct('>I8', k.z)
  call('ZADD', P .. 'z' .. l .. k.t, z, sub(k.z, 9) .. k.name)
  call('ZADD', P .. 't' .. l, 'LT', z, k.t)
  call('ZADD', P .. 'w' .. k.q, 'LT', z, k.r)
  if not readyAt[l] then
    ready[#ready + 1] = l
    readyAt[l] = z
  elseif z < readyAt[l] then
    readyAt[l] = z
  end
end

-- fields are what flush writes of a key besides its messages.
local function fields(k, set, del)
  local function field(name, value, was, none)
    if value == none then
      if was ~= none and not k.rewrite then
        del[#del + 1] = name
      end
    elseif value ~= was or k.rewrite then
      set[#set + 1] = name
      set[#set + 1] = value
    end
  end
  local was = k.was
  field('r', k.r, was.r, '')
  field('n', k.n, was.n, 0)
  field('f', k.f, was.f, 0)
  field('g', k.g, was.g, '0')
  field('t', k.tok, was.tok, nil)
  field('u', k.u, was.u, nil)
  field('d', k.d, was.d, nil)
  field('c', k.c, was.c, 0)
  field('z', k.z, was.z, nil)
end

-- flush writes a key back: what frees memory first.
local function flush(k)
  local was, id = k.was, k.id
  local gone = k.c == 0 and k.n == 0 and not k.kept
  local z = nil
  if k.r ~= '' and not k.tok and k.c > 0 then
    z = k.first
    if not z then
      local first = call('ZRANGE', P .. 'o' .. id, 0, 0, 'WITHSCORES')
      z = pack('>I8', tonumber(first[2])) .. sub(first[1], 1, 8)
    end
  end
  if was.z and (z ~= was.z or k.r ~= was.r) then
    call('ZREM', P .. 'z' .. lane(k.q, was.r) .. k.t, sub(was.z, 9) .. k.name)
  end
  if was.tok and not k.tok then
    call('ZREM', leases, id)
  end
  k.z = z
  if gone then
    if (was.c > 0 or was.n > 0) and not k.rewrite then
      call('DEL', P .. 'k' .. id)
    end
    fresh(k)
  else
    local set, del = {}, {}
    fields(k, set, del)
    for mid in pairs(k.dirty) do
      local m = k.m[mid]
      if m then
        set[#set + 1] = 'm' .. mid
        set[#set + 1] = pack('>c8I4I4', m[1], m[2], m[3])
      elseif not k.rewrite then
        del[#del + 1] = 'm' .. mid
      end
    end
    if #del > 0 then
      many('HDEL', P .. 'k' .. id, del)
    end
    if #set > 0 then
      many('HSET', P .. 'k' .. id, set)
    end
    if z and (z ~= was.z or k.r ~= was.r) then
      enter(k)
    end
    if k.tok and (not was.tok or k.u ~= was.u) then
      call('ZADD', leases, k.u, id)
    end
  end
  k.dirty, k.rewrite = {}, nil
  note(k)
end

local function flushAll()
  for i = 1, #touched do
    flush(touched[i])
  end
end
