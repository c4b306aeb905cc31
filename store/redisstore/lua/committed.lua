-- The end of a commit.
answer[3] = readyList()
publish(listening, records)
rememberChanges()
return answer
