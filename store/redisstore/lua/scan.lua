-- Some of the names of all that is stored, and where to go on.
return call('SCAN', arg(), 'MATCH', P .. arg(), 'COUNT', 1000)
