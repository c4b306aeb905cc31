package engine

// onNew is set by tests: see OnNew.
var onNew func(cfg *Config) (closed func())

// OnNew has f change the configuration of each engine before it begins, and what f returns called when the
// engine is closed. It is for tests, which have the code of all engines run over a connection, and is called
// before there are any.
func OnNew(f func(cfg *Config) (closed func())) { onNew = f }
