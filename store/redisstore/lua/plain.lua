-- Nobody in the caller's process waits for what this may have made ready.
local handed = {}
if done > 0 then
  writeAll()
end
