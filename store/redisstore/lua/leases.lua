-- The live leases by their end: of one key, of one queue, or all; up to limit. Heads are read only
-- of those that are asked for.
local key, queue, limit = arg(), arg(), num()
local rows = {}

local function add(id, raw)
  if raw then
    local r, _, _, _, _, _, _, _, tok, u = unpackHead(raw)
    if tok ~= '' and u > now and #rows < limit then
      rows[#rows + 1] = {id, r, tok, u}
    end
  end
end

if key ~= '' then
  add(key, call('GET', P .. 'k' .. key))
  return {'ok', rows}
end
local from, page, prefix = 0, 1000, short(queue)
repeat
  local list = call('ZRANGEBYSCORE', P .. 'l', string.format('(%.0f', now), '+inf', 'LIMIT', from, page)
  local ids, names = {}, {}
  for i = 1, #list do
    if #rows + #ids == limit then
      break
    end
    if queue == '' or sub(list[i], 1, #prefix) == prefix then
      ids[#ids + 1] = list[i]
      names[#names + 1] = P .. 'k' .. list[i]
    end
  end
  local heads = #names > 0 and wide('MGET', names) or {}
  for i = 1, #ids do
    add(ids[i], heads[i])
  end
  from = from + page
until #list < page or #rows >= limit
return {'ok', rows}
