-- Somebody in the caller's process waits for what this may have made ready. Most commits
-- are without: what claims need takes time to define, so it is in no other script.
local handed, wants, waiting = {}, {}, {}
if done > 0 then
  for i = 1, num() do
    claims, spent = {}, {}
    local w = wanted()
    wants[i] = w
    if handOver(w) then
      handed[i] = claimed(w)
    else
      waiting[#waiting + 1] = i
    end
  end
  writeAll()
  for _, i in ipairs(waiting) do
    local w = wants[i]
    claims, spent, w.next = {}, {}, nil
    claim(w)
    handed[i] = claimed(w)
    if not w.more then
      taken(w)
    end
  end
  drain()
end
