-- What there is: a row for each queue and route.
local cap, rows = num(), {}

-- delivered is how many messages are delivered with live leases, by partition. A head has the
-- list of them packed, except that of a single one, which is empty: its first bytes tell the
-- length. It reads cap leases at most.
local delivered, from, page = {}, 0, 1000
repeat
  local ids = call('ZRANGEBYSCORE', P .. 'l', string.format('(%.0f', now), '+inf', 'LIMIT', from, page)
  for i = 1, #ids do
    ids[i] = P .. 'k' .. ids[i]
  end
  local heads = #ids > 0 and wide('MGET', ids) or {}
  for i = 1, #heads do
    local raw = heads[i]
    if raw then
      local _, _, _, _, _, rl, gl, zl, tl, dl = unpackStruct('>I4I4I4I4I8I2BBBI4', raw)
      local l, n = sub(ids[i], #P + 2, #P + 2 + byte(ids[i], #P + 2)) .. long(sub(raw, 34, 33 + rl)), 1
      if dl > 0 then
        local b, hi, lo = byte(raw, 34 + rl + gl + zl + tl, 36 + rl + gl + zl + tl)
        n = b == 0xdc and hi * 256 + lo or b - 0x90
      end
      delivered[l] = (delivered[l] or 0) + n
    end
  end
  from = from + page
until #ids < page or from >= cap

for _, l in ipairs(call('SMEMBERS', P .. 'lanes')) do
  local v = P .. 'v' .. l
  local count = call('ZCARD', v)
  if count == 0 then
    call('SREM', P .. 'lanes', l)
  else
    local first = call('ZRANGE', v, 0, 0, 'WITHSCORES')
    rows[#rows + 1] = {l, count, math.min(cap, call('ZCOUNT', v, '-inf', now)), tonumber(first[2]), math.min(cap, delivered[l] or 0)}
  end
end
rememberChanges()
return {'ok', now, call('ZCOUNT', P .. 'l', string.format('(%.0f', now), '+inf'), rows, lead}
