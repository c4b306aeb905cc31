-- A group of commits, one after another. All that can be wrong with one is checked before
-- anything of it is done: a script is not undone when it fails. One that is refused leaves
-- nothing behind, and its neighbours go on.
local listening, hinted, puts, mutations, grows = arg(), arg(), num(), num(), arg() == '1'
local commits, answers = {}, {}
local versions = {} -- of records that were put at any version

-- A commit is a flat list: its keys, by whose places what follows names them; whether it
-- needs memory; finishes, drops, trims and appends; records to put and to delete; messages
-- to put, to re-time and to delete. Before all of these is how many there are. When it is
-- checked, the keys are there instead of their IDs.
local function flat(s)
  if #s < 7000 then -- so it has fewer things than Lua can return at once
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

-- refused is why a commit cannot be: what is wrong, its place, and what there is instead.
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
    at = at + 4 + c[at + 3]
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

-- finish consumes what was delivered with the lease of a key, but what is to be kept.
local function finish(k, kept)
  if k.s then
    if not kept[k.mid] then
      remove(k, k.mid)
    end
    endLease(k)
    return
  end
  local done = places(k)
  endLease(k)
  for i = 1, #done do
    local mid = sub(done[i], 9)
    if not kept[mid] then
      remove(k, mid)
    end
  end
end

-- push appends entries to a log: those of a commit from a place on.
local function push(k, c, at, n)
  local name = P .. 'e' .. k.id
  for i = at, at + n - 1, step do
    call('RPUSH', name, unpack(c, i, math.min(i + step, at + n) - 1))
  end
  k.n = k.n + n
end

local nothing = {}

-- applyKeys finishes, drops, trims and appends. It returns the place after these.
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
    local k, entries = c[c[at] + 1], c[at + 3]
    if k.n == 0 then
      k.g = c[at + 2]
    end
    push(k, c, at + 4, entries)
    at = at + 4 + entries
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

-- leave makes keys of a commit that have nothing any more such as are not there: the next
-- commit finds no route.
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

-- What needs memory writes first what a server that is full refuses; what only frees some
-- is let through.
local full = false
changes = changes + mutations
if grows then
  local said = remember(seq + puts, redis.pcall)
  if type(said) == 'table' and said.err then
    full = string.find(said.err, 'OOM', 1, true)
    if not full then
      return remember(seq + puts) -- it says the same again
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
