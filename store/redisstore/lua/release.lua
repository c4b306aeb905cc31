-- The end of a lease without consuming anything.
local listening, after, uncounted = arg(), num(), arg() == '1'
local k = key(arg())
if k.tok ~= arg() then
  return {'lost'}
end
if after > 0 then
  remember() -- a server at its memory limit refuses here, before anything is changed
else
  evenIfFull()
end
for _, member in ipairs(leasedMembers(k)) do
  local mid = sub(member, 9)
  local m = find(k, mid)
  if after > 0 then
    move(k, mid, m, now + after)
  end
  if uncounted then
    setMessage(k, mid, {m[1], m[2] - 1, m[3]})
  end
end
endLease(k)
flush(k)
drain()
publish(listening, '')
rememberChanges()
return {'ok', now, readyList()}
