-- Hints: who waits in another process is told what has become ready, and which records
-- have changed. One of the subscribers is the caller itself, which needs no hint.
local function publish(listening, records)
  if #ready == 0 and records == '' then
    return
  end
  local channel = P .. 'hints'
  if listening ~= 'all' and call('PUBSUB', 'NUMSUB', channel)[2] <= tonumber(listening) then
    return
  end
  local text = {short(me), pack('>I8I4', now, #records), records}
  for i = 1, #ready do
    if readyAt[ready[i]] then
      text[#text + 1] = ready[i]
      text[#text + 1] = pack('>I8', readyAt[ready[i]])
    end
  end
  call('PUBLISH', channel, table.concat(text))
end

-- readyList is the same for the caller.
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

-- taken notes that nothing of what w asked for is ready any more: nobody else need look
-- before the next time.
local function taken(w)
  for _, route in ipairs(w.routes) do
    local l = partition(w.queue, route)
    if readyAt[l] and readyAt[l] <= now then
      readyAt[l] = w.next
    end
  end
end
