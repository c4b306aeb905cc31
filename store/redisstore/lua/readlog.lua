-- Entries of a log, from an index on: as many as fit.
local id, from, most = arg(), num(), num()
local h = keyHead(id)
local n, f = h[2], h[3]
from = math.max(from, f)
local entries, size, count = {}, 0, 4 -- entries may be large
local at = from
while at < n do
  local list = call('LRANGE', P .. 'e' .. id, at - f, at - f + count - 1)
  if #list == 0 then
    break
  end
  for i = 1, #list do
    size = size + #list[i]
    if size > most and #entries > 0 then
      return {from, n, entries}
    end
    entries[#entries + 1] = list[i]
  end
  at = at + #list
  if size < most / 8 then
    count = math.min(4 * count, 1024)
  end
end
return {from, n, entries}
