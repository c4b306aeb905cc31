-- A group of commits, one after another. All that can be wrong with one is checked before
-- anything of it is done: a script is not undone when it fails. One that is refused leaves
-- nothing behind, and its neighbours go on.
local listening, hinted, puts, mutations, grows = arg(), arg(), num(), num(), arg() == '1'
local commits, answers = {}, {}
local versions = {} -- of records that were put at any version

-- A commit is a list: its keys, by whose places what follows names them; whether it needs
-- memory; finishes, drops, trims and appends; records to put and to delete; messages to
-- put, to re-time and to delete. What is false is empty, and the others are flat.
local function lengthOf(c, i)
  return c.dropped and c.dropped[i] and 0 or c.keys[i].n
end

-- refused is why a commit cannot be: what is wrong, its place, and what there is instead.
local function refused(c)
  local keys, list = c.keys, c[3]
  if list then
    for i = 1, #list, 3 do
      if keys[list[i]].tok ~= list[i + 1] then
        return 'lost', (i + 2) / 3, 0
      end
    end
  end
  list = c[4]
  if list then
    c.dropped = {}
    for i = 1, #list do
      c.dropped[list[i]] = true
    end
  end
  list = c[5]
  if list then
    for i = 1, #list, 2 do
      local n = lengthOf(c, list[i])
      if list[i + 1] > n then
        return 'trim', (i + 1) / 2, n
      end
    end
  end
  list = c[6]
  if list then
    for i = 1, #list, 4 do
      local n = lengthOf(c, list[i])
      if list[i + 1] ~= n then
        return 'append', (i + 3) / 4, n
      end
    end
  end
  list = c[7]
  if list then
    for i = 1, #list, 5 do
      local v = record(list[i]).v
      if list[i + 1] >= 0 and list[i + 1] ~= v then
        return 'put', (i + 4) / 5, v
      end
    end
  end
  list = c[8]
  if list then
    for i = 1, #list, 2 do
      local v = record(list[i]).v
      if list[i + 1] >= 0 and list[i + 1] ~= v then
        return 'drop', (i + 1) / 2, v
      end
    end
  end
end

-- finish consumes what was delivered with the lease of a key, but what is to be kept.
local function finish(k, keep)
  local kept = {}
  if keep then
    for i = 1, #keep do
      kept[keep[i]] = true
    end
  end
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

local function applyLogs(c)
  local keys, list = c.keys, c[5]
  if list then
    for i = 1, #list, 2 do
      local k, before = keys[list[i]], list[i + 1]
      if before > k.f then
        call('LTRIM', P .. 'e' .. k.id, before - k.f, -1)
        k.f = before
      end
    end
  end
  list = c[6]
  if list then
    for i = 1, #list, 4 do
      local k, entries = keys[list[i]], list[i + 3]
      if k.n == 0 then
        k.g = list[i + 2]
      end
      many('RPUSH', P .. 'e' .. k.id, entries)
      k.n = k.n + #entries
    end
  end
end

local function applyMessages(c)
  local keys, list = c.keys, c[9]
  if list then
    for i = 1, #list, 6 do
      put(keys[list[i]], list[i + 1], list[i + 2], list[i + 3], list[i + 4], list[i + 5])
    end
  end
  list = c[10]
  if list then
    for i = 1, #list, 3 do
      local k, mid = keys[list[i]], list[i + 1]
      local m = find(k, mid)
      if m then
        if k.tok and delivered(k)[m[1] .. mid] then
          endLease(k)
        end
        move(k, mid, m, math.max(now, list[i + 2]))
      end
    end
  end
  list = c[11]
  if list then
    for i = 1, #list, 2 do
      remove(keys[list[i]], list[i + 1])
    end
  end
end

local function apply(c)
  local keys, list = c.keys, c[3]
  if list then
    for i = 1, #list, 3 do
      finish(keys[list[i]], list[i + 2])
    end
  end
  list = c[4]
  if list then
    for i = 1, #list do
      deleteKey(keys[list[i]])
    end
  end
  applyLogs(c)
  applyMessages(c)
  list = c[7]
  if list then
    for i = 1, #list, 5 do
      local r = record(list[i])
      setRecord(r, r.v + 1, list[i + 2], list[i + 3], list[i + 4])
      if list[i + 1] < 0 then
        versions[#versions + 1] = r.v
      end
    end
  end
  list = c[8]
  if list then
    for i = 1, #list, 2 do
      deleteRecord(record(list[i]))
    end
  end
end

-- leave makes keys of a commit that have nothing any more such as are not there: the next
-- commit finds no route.
local function leave(c)
  for _, k in ipairs(c.keys) do
    if k.c == 0 and k.n == 0 and (k.r ~= '' or k.g ~= '0') then
      k.r, k.f, k.g, k.l = '', 0, '0', laneOf(k.queue, '')
    end
  end
end

local ids = {}
for i = 1, num() do
  local c = cmsgpack.unpack(arg())
  commits[i] = c
  for _, id in ipairs(c[1]) do
    ids[#ids + 1] = id
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
  local of = c[1]
  c.keys = {}
  for j = 1, #of do
    c.keys[j] = keys[of[j]]
  end
  local verdict, at, actual = refused(c)
  if not verdict and full and c[2] then
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
