-- Hints tell other processes which partitions have become ready, and which records have
-- changed. listening is how many of the subscribers are the calling process, which needs none.
-- In a store of several segments it is an s, the number of the segment in two bytes, and the
-- channel, which all segments share. There subscribers may be at other nodes, so a hint is
-- published if another process has the store open.
local function publish(listening, records)
  if #ready == 0 and records == '' then
    return
  end
  local channel, segment = P .. 'hints', ''
  if byte(listening) == 115 then
    if call('ZCARD', P .. 'p') < 2 then
      return
    end
    segment, channel = sub(listening, 2, 3), sub(listening, 4)
  elseif listening ~= 'all' and call('PUBSUB', 'NUMSUB', channel)[2] <= tonumber(listening) then
    return
  end
  local text = {short(me), segment, pack('>I8I4', now, #records), records}
  for i = 1, #ready do
    if readyAt[ready[i]] then
      text[#text + 1] = ready[i]
      text[#text + 1] = pack('>I8', readyAt[ready[i]])
    end
  end
  call('PUBLISH', channel, table.concat(text))
end

-- readyList returns the partitions that have become ready, for the answer.
local function readyList()
  local list = {}
  for i = 1, #ready do
    if readyAt[ready[i]] then
      list[#list + 1] = ready[i]
      list[#list + 1] = readyAt[ready[i]]
    end
  end
  return list
end

-- taken records that w has claimed everything that was ready on its routes, so that no other
-- call is woken for them before the next due time.
local function taken(w)
  for _, route in ipairs(w.routes) do
    local l = partition(w.queue, route)
    if readyAt[l] and readyAt[l] <= now then
      readyAt[l] = w.next
    end
  end
end
