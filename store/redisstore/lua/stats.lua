-- What there is: a row for each queue and route.
local cap, rows = num(), {}
for _, l in ipairs(call('SMEMBERS', P .. 'lanes')) do
  local v = P .. 'v' .. l
  local count = call('ZCARD', v)
  if count == 0 then
    call('SREM', P .. 'lanes', l)
  else
    local first = call('ZRANGE', v, 0, 0, 'WITHSCORES')
    rows[#rows + 1] = {l, count, math.min(cap, call('ZCOUNT', v, '-inf', now)), tonumber(first[2])}
  end
end
rememberChanges()
return {'ok', now, call('ZCOUNT', P .. 'l', string.format('(%.0f', now), '+inf'), rows, lead}
