-- Keys and their messages. A key is read once, changed here, and written back by flush.
-- The cost of a script is mostly the number of its commands, so writes are collected where
-- possible, and drain writes them with one command for many keys.
local defaultTTL = 7 * 24 * 3600 * 1000
local bodies, leases, expiries = P .. 'b', P .. 'l', P .. 'x'
local smallBody = 4096 -- a single message up to this size is kept in its key
local keys, touched = {}, {}
local soonest = nil -- earliest expiry of the messages put by this script
local ready, readyAt = {}, {} -- partitions with new messages, and when these are ready
local sets, dels = {}, {} -- collected writes: names and values to set, names to delete
local adds, rems = {}, {} -- collected additions to sorted sets and removals, by set

local function partition(queue, route)
  return short(queue) .. long(route)
end

-- partitionOf does the same for a queue that is already prefixed with its length.
local partitions = {}
local function partitionOf(queue, route)
  local of = partitions[queue]
  if not of then
    of = {}
    partitions[queue] = of
  end
  local l = of[route]
  if not l then
    l = queue .. long(route)
    of[route] = l
  end
  return l
end

-- counted is the name of the set that counts the messages of a partition.
local counters = {}
local function counted(l)
  local name = counters[l]
  if not name then
    name = P .. 'v' .. l
    counters[l] = name
  end
  return name
end

local function zadd(name, at, member)
  local list = adds[name]
  if not list then
    adds[name] = {at, member}
    return
  end
  local n = #list
  list[n + 1], list[n + 2] = at, member
end

local function zrem(name, member)
  local list = rems[name]
  if not list then
    rems[name] = {member}
    return
  end
  list[#list + 1] = member
end

-- drainSets writes the collected changes of sorted sets. Removals come last: a caller that
-- adds a member again after removing it must drain in between.
local function drainSets()
  for name, list in pairs(adds) do
    many('ZADD', name, list)
  end
  for name, list in pairs(rems) do
    many('ZREM', name, list)
  end
  adds, rems = {}, {}
end

-- drain writes everything that was collected.
local function drain()
  if #dels > 0 then
    wide('DEL', dels)
    dels = {}
  end
  if #sets > 0 then
    wide('MSET', sets)
    sets = {}
  end
  drainSets()
end

-- expiry is the member of expiries for a message: its number, its ID and its key.
local function expiry(member, id)
  return sub(member, 1, 8) .. long(sub(member, 9)) .. id
end

local function endLease(k)
  k.tok, k.u, k.d, k.delivered = nil, nil, nil, nil
end

-- unsingle removes the single message of a key from its state.
local function unsingle(k)
  k.s, k.sid, k.mid, k.a = nil, nil, nil, 0
end

-- emptied resets the state of a key to that of a key that does not exist.
local function emptied(k)
  k.r, k.n, k.f, k.g, k.c, k.z, k.m, k.dirty = '', 0, 0, '0', 0, '', false, false
  k.l, k.first, k.unread, k.raw = partitionOf(k.queue, ''), nil, false, nil
  endLease(k)
  unsingle(k)
end

-- newKey returns the state of a key from its stored head. A lease that has ended is dropped.
-- A single small message is in s, with everything but its attempts.
local function newKey(id, hash, raw)
  local queue = sub(id, 1, byte(id, 1) + 1)
  local k
  if raw then
    local r, n, f, g, c, z, a, s, tok, u, d = unpackHead(raw)
    local l = partitionOf(queue, r)
    k = {
      id = id, hash = hash, queue = queue, r = r, n = n, f = f, g = g, c = c, z = z, a = a, l = l,
      m = false, dirty = false, unread = false, raw = raw, inz = z, inl = l,
    }
    if z ~= '' then
      k.first = z
    end
    if tok ~= '' then
      k.inu = u
      if u > now then
        k.tok, k.u, k.d = tok, u, d
      end
    end
    if s ~= '' then
      local hi, lo = byte(s, 33, 34)
      k.s, k.sid, k.mid = s, sub(s, 9, 16), sub(s, 35, 34 + hi * 256 + lo)
    else
      k.unread = c > 0 -- messages that this script has not read may exist
    end
  else
    local l = partitionOf(queue, '')
    k = {
      id = id, hash = hash, queue = queue, r = '', n = 0, f = 0, g = '0', c = 0, z = '', a = 0, l = l,
      m = false, dirty = false, unread = false, raw = nil, inz = '', inl = l, -- inz and inl are where it is among the keys to claim; inu is where among the leases
    }
  end
  keys[id] = k
  touched[#touched + 1] = k
  return k
end

-- named returns the tenant and the name of a key.
local function named(k)
  if not k.t then
    local id, ql = k.id, #k.queue
    local hi, lo = byte(id, ql + 1, ql + 2)
    local tl = ql + 2 + hi * 256 + lo
    k.t, k.name = sub(id, ql + 3, tl), sub(id, tl + 1)
  end
  return k.t, k.name
end

-- load reads the keys that this script has not read yet, with one command.
local function load(ids)
  local missing, names = {}, {}
  for i = 1, #ids do
    local id = ids[i]
    if keys[id] == nil then
      keys[id] = false
      missing[#missing + 1] = id
      names[#names + 1] = P .. 'k' .. id
    end
  end
  if #names > 0 then
    local raws = wide('MGET', names)
    for i = 1, #missing do
      newKey(missing[i], names[i], raws[i])
    end
  end
end

-- key returns the state of a key, and reads it if necessary.
local function key(id)
  local k = keys[id]
  if k then
    return k
  end
  local hash = P .. 'k' .. id
  return newKey(id, hash, call('GET', hash))
end

-- leasedMembers returns the members of the messages delivered with the lease of a key.
local function leasedMembers(k)
  if k.s then
    return {k.sid .. k.mid}
  end
  return cmsgpack.unpack(k.d)
end

-- delivered returns the same as a set.
local function delivered(k)
  if not k.delivered then
    k.delivered = {}
    if k.tok then
      for _, member in ipairs(leasedMembers(k)) do
        k.delivered[member] = true
      end
    end
  end
  return k.delivered
end

-- singleBody returns the stored form of a single message: put at, time to live and body.
local function singleBody(k)
  return sub(k.s, 17, 32) .. sub(k.s, 35 + #k.mid)
end

-- find returns a pending message: its number, its attempts, and the size of its body.
local function find(k, mid)
  if k.s then
    return mid == k.mid and {k.sid, k.a, #k.s - 34 - #mid}
  end
  local m = k.m and k.m[mid]
  if m == nil or not k.m then
    local v = k.unread and call('HGET', P .. 'n' .. k.id, mid)
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
  local member, mid, m = k.sid .. k.mid, k.mid, find(k, k.mid)
  call('HSET', bodies, k.sid, singleBody(k))
  call('ZADD', P .. 'o' .. k.id, text(unpackStruct('>I8', k.s)), member)
  if k.tok then
    k.d = cmsgpack.pack({member})
  end
  unsingle(k)
  setMessage(k, mid, m)
end

-- move gives a pending message another time.
local function move(k, mid, m, visible)
  spill(k)
  drainSets()
  call('ZADD', P .. 'o' .. k.id, visible, m[1] .. mid)
  call('ZADD', P .. 'v' .. k.l, visible, m[1])
  k.first = nil
end

-- remove deletes a message. It ends the lease that the message was delivered with.
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
  zrem(counted(k.l), sid)
  if k.r == '' then
    call('ZREM', expiries, expiry(sid .. mid, k.id))
  end
  k.c = k.c - 1
  k.first = nil
end

-- setRoute gives a key a route. Messages become visible no earlier than now.
local function setRoute(k, route)
  local l = partitionOf(k.queue, route)
  if k.c > 0 then
    spill(k)
    drainSets()
    local old, new = P .. 'v' .. k.l, P .. 'v' .. l
    local list = call('ZRANGE', P .. 'o' .. k.id, 0, -1, 'WITHSCORES')
    for i = 1, #list, 2 do
      local member, visible = list[i], tonumber(list[i + 1])
      local sid = sub(member, 1, 8)
      if visible < now then
        visible = now
        call('ZADD', P .. 'o' .. k.id, visible, member)
      end
      call('ZREM', old, sid)
      call('ZADD', new, visible, sid)
      if k.r == '' then
        call('ZREM', expiries, expiry(member, k.id))
      end
    end
    call('SADD', P .. 'lanes', l)
    k.first = nil
  end
  k.r, k.l = route, l
end

local partitionsKnown = {}

-- insert adds a message whose ID the key does not have.
local function insert(k, mid, visible, putAt, ttl, attempt, body)
  seq = seq + 1
  local sid, at, l = pack('>I8', seq), text(visible), k.l
  zadd(counted(l), at, sid)
  if not partitionsKnown[l] then
    partitionsKnown[l] = true
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

-- put puts a message. A ttl of -1 drops it if the key has no route.
local function put(k, mid, route, visible, ttl, body)
  if ttl < 0 then
    if k.r == '' then
      return
    end
    ttl = 0
  end
  if route ~= '' and route ~= k.r then
    setRoute(k, route)
  end
  if k.c == 0 or not find(k, mid) then
    insert(k, mid, visible > now and visible or now, now, ttl, 0, body)
  end
end

-- deleteKey deletes a key with its messages, its log and its lease.
local function deleteKey(k)
  if k.s then
    remove(k, k.mid)
  elseif k.c > 0 then
    for _, member in ipairs(call('ZRANGE', P .. 'o' .. k.id, 0, -1)) do
      call('HDEL', bodies, sub(member, 1, 8))
      zrem(counted(k.l), sub(member, 1, 8))
      if k.r == '' then
        call('ZREM', expiries, expiry(member, k.id))
      end
    end
  end
  if k.unread or k.m then -- several messages exist, or did
    call('DEL', P .. 'o' .. k.id, P .. 'n' .. k.id)
  end
  if k.n > k.f then
    call('DEL', P .. 'e' .. k.id)
  end
  local raw = k.raw
  emptied(k)
  k.raw = raw -- flush deletes it, unless something is put to it again
end

-- sooner adds a member with a time to a sorted set, unless an earlier one was added here.
local soonTimes = {}
local function sooner(name, z, at, member)
  local of = soonTimes[name]
  if not of then
    of = {}
    soonTimes[name] = of
  end
  if not of[member] or z < of[member] then
    of[member] = z
    call('ZADD', name, 'LT', at, member)
  end
end

-- enter puts a key into the partition of its route, where claims find it: by the time of its
-- first message, then by the number of it. k.z is both. The times of tenants
-- and routes may be too early, never too late: the next claim corrects them.
local function enter(k)
  local l, z = k.l, unpackStruct('>I8', k.z)
  local at, tenant, name = text(z), named(k)
  zadd(P .. 'z' .. l .. tenant, at, sub(k.z, 9) .. name)
  sooner(P .. 't' .. l, z, at, tenant)
  sooner(P .. 'w' .. sub(k.queue, 2), z, at, k.r)
  if not readyAt[l] then
    ready[#ready + 1] = l
    readyAt[l] = z
  elseif z < readyAt[l] then
    readyAt[l] = z
  end
end

-- writeMessages writes those of several messages that have changed.
local function writeMessages(k)
  local set, del, name = {}, {}, P .. 'n' .. k.id
  for mid in pairs(k.dirty) do
    local m = k.m[mid]
    if m then
      set[#set + 1] = mid
      set[#set + 1] = pack('>c8I4I4', m[1], m[2], m[3])
    else
      del[#del + 1] = mid
    end
  end
  if #del > 0 then
    many('HDEL', name, del)
  end
  if #set > 0 then
    many('HSET', name, set)
  end
  k.dirty = false
end

-- firstMember returns the visible time and the number of the first message of a key, which
-- must have one.
local function firstMember(k)
  if k.s then
    return sub(k.s, 1, 16)
  end
  if not k.first then
    local first = call('ZRANGE', P .. 'o' .. k.id, 0, 0, 'WITHSCORES')
    k.first = pack('>I8', tonumber(first[2])) .. sub(first[1], 1, 8)
  end
  return k.first
end

-- idle says whether a key is not leased, and has no message that is visible or waits for a route.
local function idle(k)
  return not k.tok and (k.c == 0 or k.r ~= '' and unpackStruct('>I8', firstMember(k)) > now)
end

-- visibleAt returns the same as two numbers.
local function visibleAt(k)
  return unpackStruct('>I8I8', k.s or firstMember(k))
end

-- flush collects the writes of a key; drain performs them.
local function flush(k)
  local z = ''
  if k.c > 0 and not k.tok and k.r ~= '' then
    z = firstMember(k)
  end
  k.z = z
  if z ~= k.inz or k.l ~= k.inl then
    local was = k.inz
    if was ~= '' and not (z ~= '' and k.l == k.inl and sub(was, 9) == sub(z, 9)) then
      local tenant, name = named(k)
      zrem(P .. 'z' .. k.inl .. tenant, sub(was, 9) .. name)
    end
    if z ~= '' then
      enter(k)
    end
  end
  if k.tok then
    if k.u ~= k.inu then
      zadd(leases, text(k.u), k.id)
      k.inu = k.u
    end
  elseif k.inu then
    zrem(leases, k.id)
    k.inu = nil
  end
  if k.dirty then
    writeMessages(k)
  end
  if k.c == 0 and k.n == 0 and not (k.kept and (k.r ~= '' or k.g ~= '0')) then
    if k.raw then
      dels[#dels + 1] = k.hash
    end
    emptied(k)
  else
    local raw = packHead(k.r, k.n, k.f, k.g, k.c, k.z, k.a, k.s or '', k.tok or '', k.tok and k.u or 0, k.tok and k.d or '')
    if raw ~= k.raw then
      sets[#sets + 1] = k.hash
      sets[#sets + 1] = raw
      k.raw = raw
    end
  end
  k.inz, k.inl = z, k.l
end

local function flushAll()
  for i = 1, #touched do
    flush(touched[i])
  end
  drain()
end
