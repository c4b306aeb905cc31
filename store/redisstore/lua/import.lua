-- A parcel: what it holds and the store does not is added, exactly as it was.
local listening, hint = arg(), arg()
local heads, appends, lengths = {}, {}, {}

for i = 1, num() do
  heads[i] = {id = arg(), r = arg(), g = arg(), f = num()}
  lengths[heads[i].id] = heads[i].f
end
for i = 1, num() do
  local a = {id = arg(), at = num(), entries = {}}
  local n = num()
  for j = 1, n do
    a.entries[j] = arg()
  end
  appends[i] = a
  local length = math.max(lengths[a.id] or 0, key(a.id).n)
  if a.at > length then
    return {'gap', i, length}
  end
  lengths[a.id] = math.max(length, a.at + n)
end

local messages = num()
changes = changes + 1
remember(seq + messages)
for _, h in ipairs(heads) do
  local k = key(h.id)
  if k.n == 0 then
    k.g, k.f, k.n = h.g, h.f, h.f
  end
  if h.r ~= '' and k.r == '' then
    setRoute(k, h.r)
  end
  k.kept = true -- what makes it a key may come with the next parcel
end
for _, a in ipairs(appends) do
  local k, rest = key(a.id), {}
  for j = k.n - a.at + 1, #a.entries do
    rest[#rest + 1] = a.entries[j]
  end
  if #rest > 0 then
    many('RPUSH', P .. 'e' .. k.id, rest)
    k.n = k.n + #rest
  end
  k.kept = true
end
for _ = 1, messages do
  local k, mid, visible, putAt, ttl, attempt, body = key(arg()), arg(), num(), num(), num(), num(), arg()
  k.kept = true
  if not find(k, mid) then
    insert(k, mid, visible, putAt, ttl, attempt, body)
  end
end
for _ = 1, num() do
  local rid, version, time, status, rest = arg(), num(), num(), arg(), arg()
  setRecord(record(rid), version, time, status, rest)
end
writeAll()
publish(listening, hint)
rememberChanges()
return {'ok', now, readyList(), soonest or -1}
