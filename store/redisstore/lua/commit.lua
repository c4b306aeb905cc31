-- A group of commits, one after another. Each is checked completely before any of it is
-- applied, because the server does not undo a script that fails. A refused commit changes
-- nothing, and the others of the group are not affected.
local listening, hinted, puts, mutations, grows = arg(), arg(), num(), num(), arg() == '1'
local commits, answers = {}, {}
local versions = {} -- new versions of records put without an expected one

-- A commit is a flat list: its keys, which the rest refers to by their index; whether it
-- needs memory; finishes, drops, trims and appends; records to put and to delete; messages
-- to put, to re-time and to delete. Each part begins with its number of elements. The
-- check replaces the IDs of the keys by their states.
local function flat(s)
  if #s < 7000 then -- few enough elements to be returned at once in Lua
    return {cmsgpack.unpack(s)}
  end
  local all, at = {}, 0
  repeat
    local some = {cmsgpack.unpack_limit(s, 4000, at)}
    at = some[1]
    for i = 2, #some do
      all[#all + 1] = some[i]
    end
  until at < 0
  return all
end

local function lengthOf(c, i)
  return c.dropped and c.dropped[i] and 0 or c[i + 1].n
end

-- refused returns why a commit is refused: the verdict, the index of the element, and the
-- actual length or version; or nil.
local function refused(c)
  local at = c[1] + 4
  for i = 1, c[at - 1] do
    if c[c[at] + 1].tok ~= c[at + 1] then
      return 'lost', i, 0
    end
    at = at + 3 + c[at + 2]
  end
  local n = c[at]
  at = at + 1
  if n > 0 then
    c.dropped = {}
    for i = at, at + n - 1 do
      c.dropped[c[i]] = true
    end
    at = at + n
  end
  n, at = c[at], at + 1
  for i = 1, n do
    local length = lengthOf(c, c[at])
    if c[at + 1] > length then
      return 'trim', i, length
    end
    at = at + 2
  end
  n, at = c[at], at + 1
  for i = 1, n do
    local length = lengthOf(c, c[at])
    if c[at + 1] ~= length then
      return 'append', i, length
    end
    if c[at + 4] and not (c.dropped and c.dropped[c[at]]) and not idle(c[c[at] + 1]) then
      return 'busy', i, 0
    end
    at = at + 6 + c[at + 5]
  end
  n, at = c[at], at + 1
  for i = 1, n do
    local v = record(c[at]).v
    if c[at + 1] >= 0 and c[at + 1] ~= v then
      return 'put', i, v
    end
    at = at + 5
  end
  n, at = c[at], at + 1
  for i = 1, n do
    local v = record(c[at]).v
    if c[at + 1] >= 0 and c[at + 1] ~= v then
      return 'drop', i, v
    end
    at = at + 2
  end
end

-- finish consumes the messages delivered with the lease of a key, except those to keep.
local function finish(k, kept)
  if k.s then
    if not kept[k.mid] then
      remove(k, k.mid)
    end
    endLease(k)
    return
  end
  local done = leasedMembers(k)
  endLease(k)
  for i = 1, #done do
    local mid = sub(done[i], 9)
    if not kept[mid] then
      remove(k, mid)
    end
  end
end

-- push appends entries to a log: n elements of the commit, from an index on.
local function push(k, c, at, n)
  local name = P .. 'e' .. k.id
  for i = at, at + n - 1, step do
    call('RPUSH', name, unpack(c, i, math.min(i + step, at + n) - 1))
  end
  k.n = k.n + n
end

local nothing = {}

-- applyKeys finishes, drops, trims and appends. It returns the index after them.
local function applyKeys(c)
  local at = c[1] + 4
  for _ = 1, c[at - 1] do
    local kept, n = nothing, c[at + 2]
    if n > 0 then
      kept = {}
      for i = at + 3, at + 2 + n do
        kept[c[i]] = true
      end
    end
    finish(c[c[at] + 1], kept)
    at = at + 3 + n
  end
  local n = c[at]
  for i = at + 1, at + n do
    deleteKey(c[c[i] + 1])
  end
  at = at + 1 + n
  n, at = c[at], at + 1
  for _ = 1, n do
    local k, before = c[c[at] + 1], c[at + 1]
    if before > k.f then
      call('LTRIM', P .. 'e' .. k.id, before - k.f, -1)
      k.f = before
    end
    at = at + 2
  end
  n, at = c[at], at + 1
  for _ = 1, n do
    local k, route, entries = c[c[at] + 1], c[at + 3], c[at + 5]
    if k.n == 0 then
      k.g = c[at + 2]
    end
    if route ~= '' and route ~= k.r then
      setRoute(k, route)
    end
    push(k, c, at + 6, entries)
    at = at + 6 + entries
  end
  return at
end

-- applyMessages puts, re-times and deletes messages.
local function applyMessages(c, at)
  local n = c[at]
  at = at + 1
  for _ = 1, n do
    put(c[c[at] + 1], c[at + 1], c[at + 2], c[at + 3], c[at + 4], c[at + 5])
    at = at + 6
  end
  n, at = c[at], at + 1
  for _ = 1, n do
    local k, mid = c[c[at] + 1], c[at + 1]
    local m = find(k, mid)
    if m then
      if k.tok and delivered(k)[m[1] .. mid] then
        endLease(k)
      end
      move(k, mid, m, math.max(now, c[at + 2]))
    end
    at = at + 3
  end
  n, at = c[at], at + 1
  for _ = 1, n do
    remove(c[c[at] + 1], c[at + 1])
    at = at + 2
  end
end

local function apply(c)
  local at = applyKeys(c)
  local n = c[at]
  at = at + 1
  for _ = 1, n do
    local r = record(c[at])
    setRecord(r, r.v + 1, c[at + 2], c[at + 3], c[at + 4])
    if c[at + 1] < 0 then
      versions[#versions + 1] = r.v
    end
    at = at + 5
  end
  n, at = c[at], at + 1
  for _ = 1, n do
    deleteRecord(record(c[at]))
    at = at + 2
  end
  applyMessages(c, at)
end

-- leave resets the keys of a commit that have become empty, so that the next commit of the
-- group finds no route there, as it would in a script of its own.
local function leave(c)
  for i = 2, c[1] + 1 do
    local k = c[i]
    if k.c == 0 and k.n == 0 and (k.r ~= '' or k.g ~= '0') then
      k.r, k.f, k.g, k.l = '', 0, '0', partitionOf(k.queue, '')
    end
  end
end

local ids = {}
for i = 1, num() do
  local c = flat(arg())
  commits[i] = c
  for j = 2, c[1] + 1 do
    ids[#ids + 1] = c[j]
  end
end
load(ids)

-- A commit that needs memory first makes a write that a server at its memory limit refuses;
-- a commit that only frees memory is always accepted.
local full = false
changes = changes + mutations
if grows then
  local said = remember(seq + puts, redis.pcall)
  if type(said) == 'table' and said.err then
    full = string.find(said.err, 'OOM', 1, true)
    if not full then
      return remember(seq + puts) -- fails with the same error, and so does the script
    end
  end
end
if full or not grows then
  evenIfFull()
end
local done = 0
for i = 1, #commits do
  local c = commits[i]
  for j = 2, c[1] + 1 do
    c[j] = keys[c[j]]
  end
  local verdict, at, actual = refused(c)
  if not verdict and full and c[c[1] + 2] then
    verdict, at, actual = 'full', 0, 0
  end
  if verdict then
    local n = #answers
    answers[n + 1], answers[n + 2], answers[n + 3], answers[n + 4] = i, verdict, at, actual
  else
    done = done + 1
    apply(c)
    leave(c)
  end
end
