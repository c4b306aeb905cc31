-- All that keys hold, as far as it fits: heads, entries, and messages in the order in which
-- they were put. The first key may be one that did not fit at once.
local budget, first, from, after, begun = num(), arg() == '1', num(), arg(), arg() == '1'
local overhead, answer, size = 64, {}, 0

-- room reports whether something more fits. There is always room for one thing.
local function room(bytes)
  if not first and size + overhead + bytes > budget then
    return false
  end
  first = false
  size = size + overhead + bytes
  return true
end

-- entriesOf reports whether all entries of a log fitted.
local function entriesOf(k, id, f, n)
  local at, count = math.max(from, f), 4
  while at < n do
    local list = call('LRANGE', P .. 'e' .. id, at - f, at - f + count - 1)
    if #list == 0 then
      break -- there are fewer than there should be, which is for Verify to say
    end
    for i = 1, #list do
      if not room(#list[i]) then
        k[6] = at
        return false
      end
      k[7][#k[7] + 1] = list[i]
      at = at + 1
    end
    if size < budget / 8 then
      count = math.min(4 * count, 1024)
    end
  end
  k[6] = at
  return true
end

-- add adds a message, and reports whether it fitted.
local function add(k, id, number, mid, visible, attempt, size, sid, raw)
  if number <= tonumber(after) then
    return true
  end
  if not room(#id + #mid + size) then
    return false
  end
  for _, part in ipairs({mid, visible, attempt, raw or call('HGET', P .. 'b', sid)}) do
    k[9][#k[9] + 1] = part
  end
  k[8] = string.format('%.0f', number)
  return true
end

local function numberOf(sid)
  local hi, lo = unpackStruct('>I4I4', sid)
  return hi * 4294967296 + lo
end

local function messagesOf(k, id, s, attempts)
  if s then
    local visible, sid, mid, raw = single(s)
    return add(k, id, numberOf(sid), mid, visible, attempts, #raw - 16, sid, raw)
  end
  local list = call('ZRANGE', P .. 'o' .. id, 0, -1, 'WITHSCORES')
  local order = {}
  for i = 1, #list, 2 do
    order[#order + 1] = {numberOf(list[i]), list[i], tonumber(list[i + 1])}
  end
  table.sort(order, function(a, b) return a[1] < b[1] end)
  for _, o in ipairs(order) do
    local sid, mid = sub(o[2], 1, 8), sub(o[2], 9)
    if o[1] > tonumber(after) then
      local head = call('HGET', P .. 'n' .. id, mid)
      local _, attempt, length = unpackStruct('>c8I4I4', head)
      if not add(k, id, o[1], mid, o[3], attempt, length, sid) then
        return false
      end
    end
  end
  return true
end

-- Of each key: whether it is done, its head, how far its entries came, these, the number of
-- its last message, and the messages.
for i = 1, num() do
  local id = arg()
  local h, s = keyHead(id)
  local n, f = h[2], h[3]
  local k = {0, h[1], n, f, h[4], from, {}, after, {}}
  if not begun and not room(#id) then
    return answer
  end
  answer[i] = k
  if not entriesOf(k, id, f, n) or not messagesOf(k, id, s, h[7]) then
    return answer
  end
  k[1] = 1
  from, after, begun = 0, '0', false
end
return answer
