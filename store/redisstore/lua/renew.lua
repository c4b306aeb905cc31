-- A renewal of many leases. It answers with the indexes of those that are lost.
local d, lost = num(), {}
evenIfFull()
for i = 1, num() do
  local id, token = arg(), arg()
  local h = keyHead(id)
  if h[9] ~= token or h[10] <= now then
    lost[#lost + 1] = i
  elseif now + d > h[10] then
    h[10] = now + d
    call('SET', P .. 'k' .. id, packHead(unpack(h)))
    call('ZADD', P .. 'l', text(h[10]), id)
  end
end
rememberChanges()
return {'ok', lost}
