-- Moves messages to quarantine, with the records that the client has made of them. A message
-- that was changed, leased or removed since it was found stays as it is.
local listening, hint, moved = arg(), arg(), 0
evenIfFull()
for _ = 1, num() do
  local k, mid, sid, attempt, reason = key(arg()), arg(), arg(), num(), arg()
  local rid, time, status, rest = arg(), num(), arg(), arg()
  local m = find(k, mid)
  if m and m[1] == sid and m[2] == attempt and (reason ~= 'expired' or k.r == '') and not (k.tok and delivered(k)[sid .. mid]) then
    remove(k, mid)
    local r = record(rid)
    setRecord(r, r.v + 1, time, status, rest)
    changes = changes + 1
    moved = moved + 1
  end
end
writeAll()
publish(listening, hint)
rememberChanges()
return {'ok', now, readyList(), moved}
