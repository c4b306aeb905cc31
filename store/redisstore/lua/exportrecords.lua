-- Records, as far as they fit, of those that are named.
local budget, first, answer = num(), arg() == '1', {}
for i = 1, num() do
  local rid = arg()
  local raw = call('GET', P .. 'r' .. rid)
  if not raw then
    raw = ''
  end
  if not first and 64 + #rid + #raw > budget then
    return answer
  end
  first = false
  budget = budget - 64 - #rid - #raw
  answer[i] = raw
end
return answer
