-- Claims. maxReply is about how many bytes of bodies one call answers with, and maxSpent
-- how many messages it hands back to be quarantined.
local pageBytes, maxReply, maxSpent = 16 * 1024 * 1024, 32 * 1024 * 1024, 200
local claims, spent, replied = {}, {}, 0

-- spend notes a message that goes to quarantine: only the caller can write its record.
local function spend(k, place, m, visible, reason)
  local raw = k.s and singleBody(k) or call('HGET', bodies, m[1])
  if raw then
    spent[#spent + 1] = {k.id, sub(place, 9), m[1], m[2], visible, k.r, reason, raw}
    replied = replied + #raw
  end
end

-- lease leases a key with messages. The caller has it flushed.
local function lease(k, w, d, messages, size)
  k.tok, k.u, k.d, k.delivered = w.token .. #claims, now + w.lease, d, nil
  claims[#claims + 1] = {k.id, k.tok, k.r, k.n, k.g, k.u, messages}
  replied = replied + size
end

-- claimSingle is claimKey for a key that has one message, which is small.
local function claimSingle(k, w)
  local visible = unpackStruct('>I8', k.s)
  if visible > now then
    return false
  end
  if w.attempts > 0 and k.a >= w.attempts then
    spend(k, k.sid .. k.mid, {k.sid, k.a}, visible, 'attempts')
    return false
  end
  k.a = k.a + 1
  lease(k, w, '', {k.mid, visible, k.a, singleBody(k)}, #k.s)
  return true
end

-- claimKey leases a key that is ready, unless some of its messages were delivered too
-- often: then these must go first.
local function claimKey(k, w)
  if k.s then
    return claimSingle(k, w)
  end
  if k.dirty then
    writeMessages(k)
  end
  local list = call('ZRANGEBYSCORE', P .. 'o' .. k.id, '-inf', now, 'WITHSCORES', 'LIMIT', 0, w.messages)
  local places, names, size, had = {}, {}, 0, #spent
  for i = 1, #list, 2 do
    names[#names + 1] = sub(list[i], 9)
  end
  local heads = #names > 0 and many('HMGET', P .. 'n' .. k.id, names) or {}
  local sids, bySid = {}, {}
  for i = 1, #heads do
    local sid, attempt, length = unpackStruct('>c8I4I4', heads[i])
    local place, m = list[2 * i - 1], {sid, attempt, length}
    if #sids > 0 and size + length > pageBytes or #spent >= maxSpent or replied >= maxReply then
      break
    end
    if w.attempts > 0 and attempt >= w.attempts then
      spend(k, place, m, tonumber(list[2 * i]), 'attempts')
    else
      size = size + length
      sids[#sids + 1], places[#places + 1] = sid, place
      bySid[#sids] = {m, tonumber(list[2 * i])}
    end
  end
  if #spent > had or #sids == 0 then
    return false
  end
  local messages = {}
  local raws = many('HMGET', bodies, sids)
  for i = 1, #sids do
    local m, mid = bySid[i][1], sub(places[i], 9)
    m[2] = m[2] + 1
    setMessage(k, mid, m)
    messages[#messages + 1] = mid
    messages[#messages + 1] = bySid[i][2]
    messages[#messages + 1] = m[2]
    messages[#messages + 1] = raws[i]
  end
  lease(k, w, cmsgpack.pack(places), messages, size)
  return true
end
