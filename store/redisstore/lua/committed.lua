-- The end of a group of commits: hints, and the answer.
if done > 0 then
  publish(listening, hinted)
end
rememberChanges()
return {'ok', now, readyList(), handed, soonest or -1, answers, versions, due, expiry}
