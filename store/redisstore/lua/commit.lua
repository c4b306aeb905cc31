-- A commit. All that can be wrong is checked before anything is written: a script is not
-- undone when it fails.
local listening, records, grows, puts = arg(), arg(), arg() == '1', num()
local finishes, drops, trims, appends = {}, {}, {}, {}
local dropped = {}

for i = 1, num() do
  local f = {id = arg(), token = arg(), keep = {}}
  for _ = 1, num() do
    f.keep[arg()] = true
  end
  finishes[i] = f
  if key(f.id).tok ~= f.token then
    return {'lost', i}
  end
end
for i = 1, num() do
  drops[i] = arg()
  dropped[drops[i]] = true
end

local function length(id)
  return dropped[id] and 0 or key(id).n
end

for i = 1, num() do
  trims[i] = {arg(), num()}
  local n = length(trims[i][1])
  if trims[i][2] > n then
    return {'trim', i, n}
  end
end
for i = 1, num() do
  local a = {id = arg(), at = num(), tag = arg(), entries = {}}
  local n = num()
  for j = 1, n do
    a.entries[j] = arg()
  end
  appends[i] = a
  if a.at ~= length(a.id) then
    return {'append', i, length(a.id)}
  end
end
local putRecords = {}
for i = 1, num() do
  local r = {rid = arg(), expect = num(), time = num(), status = arg(), rest = arg()}
  r.version, r.oldTime, r.oldStatus = recordHead(r.rid)
  putRecords[i] = r
  if r.expect >= 0 and r.expect ~= r.version then
    return {'put', i, r.version}
  end
end
local dropRecords = {}
for i = 1, num() do
  local rid, expect = arg(), num()
  dropRecords[i] = rid
  if expect >= 0 then
    local version = recordHead(rid)
    if version ~= expect then
      return {'drop', i, version}
    end
  end
end

-- From here on nothing fails. What needs memory writes first what a server that is full
-- refuses; what only frees some is let through.
changes = changes + #putRecords + #dropRecords
if grows then
  remember(seq + puts)
else
  evenIfFull()
end

for _, f in ipairs(finishes) do
  local k = key(f.id)
  if k.s then
    if not f.keep[k.mid] then
      remove(k, k.mid)
    end
    endLease(k)
  else
    local done = places(k)
    endLease(k)
    for _, place in ipairs(done) do
      local mid = sub(place, 9)
      if not f.keep[mid] then
        remove(k, mid)
      end
    end
  end
end
for _, id in ipairs(drops) do
  deleteKey(key(id))
end
for _, t in ipairs(trims) do
  local k = key(t[1])
  if t[2] > k.f then
    call('LTRIM', P .. 'e' .. k.id, t[2] - k.f, -1)
    k.f = t[2]
  end
end
for _, a in ipairs(appends) do
  local k = key(a.id)
  if k.n == 0 then
    k.g = a.tag
  end
  many('RPUSH', P .. 'e' .. k.id, a.entries)
  k.n = k.n + #a.entries
end
for _ = 1, puts do
  local k = key(arg())
  put(k, arg(), arg(), num(), num(), arg())
end
for _ = 1, num() do
  local k, mid, visible = key(arg()), arg(), num()
  local m = find(k, mid)
  if m then
    if k.tok and delivered(k)[m[1] .. mid] then
      endLease(k)
    end
    move(k, mid, m, math.max(now, visible))
  end
end
for _ = 1, num() do
  local k = key(arg())
  remove(k, arg())
end
for _, r in ipairs(putRecords) do
  setRecord(r.rid, r.version + 1, r.time, r.status, r.rest, r.version, r.oldTime, r.oldStatus)
end
for _, rid in ipairs(dropRecords) do
  deleteRecord(rid)
end
flushAll()

local answer = {'ok', now, {}, {}, soonest or -1}
