-- A renewal of many leases. It answers with the places of those that are lost.
local d, lost = num(), {}
evenIfFull()
for i = 1, num() do
  local id, token = arg(), arg()
  local t = call('HMGET', P .. 'k' .. id, 't', 'u')
  local u = tonumber(t[2] or nil)
  if t[1] ~= token or u <= now then
    lost[#lost + 1] = i
  elseif now + d > u then
    call('HSET', P .. 'k' .. id, 'u', now + d)
    call('ZADD', leases, now + d, id)
  end
end
rememberChanges()
return {'ok', lost}
