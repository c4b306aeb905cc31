-- A count by what the indexes know.
local kind, root, n = arg(), nil, 0
if arg() == '1' then
  root = P .. 'i' .. short(kind) .. long(arg())
else
  root = P .. 'j' .. short(kind)
end
local from, to, limit, statuses = arg(), arg(), num(), {}
local all = num()
for i = 1, all do
  statuses[i] = arg()
end
if all == 0 then
  statuses = call('SMEMBERS', P .. 's' .. kind)
end
for _, status in ipairs(statuses) do
  n = n + call('ZCOUNT', root .. status, from, '(' .. to)
  if n >= limit then
    return limit
  end
end
return n
