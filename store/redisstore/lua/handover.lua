-- Somebody in the caller's process waits for what this may have made ready. Most commits
-- are without: what claims need takes time to define, so it is in no other script.
if #ready > 0 then
  for i = 1, num() do
    claims, spent = {}, {}
    local w = wanted()
    claim(w)
    answer[4][i] = claimed(w)
    if not w.more then
      taken(w)
    end
  end
end
