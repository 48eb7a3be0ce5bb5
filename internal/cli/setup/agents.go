package setup

import (
	"os"
	"path/filepath"

	"palyra/internal/hook"
)

// signs lists by what agents are found: the program, and the directory of their settings in the person's home.
var signs = []struct{ name, program, dir string }{
	{hook.ClaudeCode, "claude", ".claude"},
	{hook.Codex, "codex", ".codex"},
	{"gemini", "gemini", ".gemini"},
	{"opencode", "opencode", ".config/opencode"},
	{"copilot", "copilot", ".copilot"},
	{"cursor", "cursor-agent", ".cursor"},
}

// agents are those that are here and whose hooks are known.
func (s *setting) agents() (found []string) {
	path, _ := s.inv.Variable("PATH")
	for _, a := range signs {
		if _, known := hook.Find(a.name); known && (isProgram(path, a.program) || isDir(filepath.Join(s.home, a.dir))) {
			found = append(found, a.name)
		}
	}
	return found
}

// isProgram reports whether a program is on a path of whole directories.
func isProgram(path, name string) bool {
	for _, dir := range filepath.SplitList(path) {
		info, err := os.Stat(filepath.Join(dir, name))
		if filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
