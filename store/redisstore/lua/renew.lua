-- A renewal of many leases. It answers with the places of those that are lost.
local d, lost = num(), {}
evenIfFull()
for i = 1, num() do
  local id, token = arg(), arg()
  local h = keyHead(id)
  if h[8] ~= token or h[9] <= now then
    lost[#lost + 1] = i
  elseif now + d > h[9] then
    h[9] = now + d
    call('HSET', P .. 'k' .. id, 'h', cmsgpack.pack(h))
    call('ZADD', P .. 'l', text(h[9]), id)
  end
end
rememberChanges()
return {'ok', lost}
