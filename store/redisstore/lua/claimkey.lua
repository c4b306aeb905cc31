-- Claims. maxReply limits the bytes of bodies in one answer, approximately; maxQuarantine
-- limits the messages that one call returns to be quarantined.
local pageBytes, maxReply, maxQuarantine = 16 * 1024 * 1024, 32 * 1024 * 1024, 200
local claims, quarantined, replied = {}, {}, 0

-- quarantineLater adds a message to the list that is returned for quarantine. The script does
-- not move it: the body of its record is encoded by the client.
local function quarantineLater(k, member, m, visible, reason)
  local raw = k.s and singleBody(k) or call('HGET', bodies, m[1])
  if raw then
    quarantined[#quarantined + 1] = {k.id, sub(member, 9), m[1], m[2], visible, k.r, reason, raw}
    replied = replied + #raw
  end
end

-- lease leases a key with messages. The caller flushes the key.
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
    quarantineLater(k, k.sid .. k.mid, {k.sid, k.a}, visible, 'attempts')
    return false
  end
  k.a = k.a + 1
  lease(k, w, '', {k.mid, visible, k.a, singleBody(k)}, #k.s)
  return true
end

-- claimKey leases a key that is ready. If some of its messages have reached the limit of
-- attempts, it leases nothing: these are quarantined first.
local function claimKey(k, w)
  if k.s then
    return claimSingle(k, w)
  end
  if k.dirty then
    writeMessages(k)
  end
  local list = call('ZRANGEBYSCORE', P .. 'o' .. k.id, '-inf', now, 'WITHSCORES', 'LIMIT', 0, w.messages)
  local members, names, size, had = {}, {}, 0, #quarantined
  for i = 1, #list, 2 do
    names[#names + 1] = sub(list[i], 9)
  end
  local heads = #names > 0 and many('HMGET', P .. 'n' .. k.id, names) or {}
  local sids, bySid = {}, {}
  for i = 1, #heads do
    local sid, attempt, length = unpackStruct('>c8I4I4', heads[i])
    local member, m = list[2 * i - 1], {sid, attempt, length}
    if #sids > 0 and size + length > pageBytes or #quarantined >= maxQuarantine or replied >= maxReply then
      break
    end
    if w.attempts > 0 and attempt >= w.attempts then
      quarantineLater(k, member, m, tonumber(list[2 * i]), 'attempts')
    else
      size = size + length
      sids[#sids + 1], members[#members + 1] = sid, member
      bySid[#sids] = {m, tonumber(list[2 * i])}
    end
  end
  if #quarantined > had or #sids == 0 then
    return false
  end
  local messages = {}
  local raws = many('HMGET', bodies, sids)
  for i = 1, #sids do
    local m, mid = bySid[i][1], sub(members[i], 9)
    m[2] = m[2] + 1
    setMessage(k, mid, m)
    messages[#messages + 1] = mid
    messages[#messages + 1] = bySid[i][2]
    messages[#messages + 1] = m[2]
    messages[#messages + 1] = raws[i]
  end
  lease(k, w, cmsgpack.pack(members), messages, size)
  return true
end
