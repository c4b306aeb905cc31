-- Nobody in the caller's process waits for what this may have made ready.
local handed, due, expiry = {}, 0, -1
if done > 0 then
  writeAll()
end
