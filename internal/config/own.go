package config

import "path/filepath"

// Servers is where MCP servers without a workspace work: a directory each, empty at first.
func (p Places) Servers() string { return p.Cells + "-servers" }

// Private are Palyra's own directories and files, which programs of the daemon's user must leave as they are.
func (c Config) Private() []string {
	p := c.Paths
	all := []string{filepath.Dir(p.State), p.State, p.Keys, filepath.Dir(p.OperatorKey), p.OperatorKey, p.Run, p.SocketDir()}
	if p.Home != "" {
		all = append(all, p.Home)
	}
	all = append(all, c.keyFiles()...)
	keys, _ := filepath.Glob(filepath.Join(p.Keys, "*"))
	return append(all, keys...)
}

// Own are Palyra's own directories, which no workspace may touch.
func (c Config) Own(stateID string) []string {
	p, at := c.Paths, c.Places(stateID)
	dirs := []string{
		filepath.Dir(p.State), p.Keys, filepath.Dir(p.OperatorKey), filepath.Dir(p.Config), p.Run, p.SocketDir(), p.Cache, p.Quarantine,
		at.Cells, at.Servers(), at.Caches, at.Posture, at.Stages, at.Undo,
	}
	if p.Home != "" {
		dirs = append(dirs, p.Home)
	}
	if c.Policy.Dir != "" {
		dirs = append(dirs, c.Policy.Dir)
	}
	return append(dirs, c.keyFiles()...)
}

// Closed are the directories with files that runs made, to which no link in a workspace may lead: nobody
// searches them for files that other programs obey.
func (c Config) Closed(stateID string) []string {
	p, at := c.Paths, c.Places(stateID)
	return []string{filepath.Dir(p.State), p.Cache, p.Quarantine, at.Cells, at.Caches, at.Posture, at.Stages, at.Undo, at.Servers()}
}

// keyFiles are the files with the keys of models.
func (c Config) keyFiles() []string {
	var files []string
	for _, p := range c.Providers {
		if p.KeyFile != "" {
			files = append(files, p.KeyFile)
		}
	}
	return files
}
