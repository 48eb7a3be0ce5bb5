package risk

import "testing"

func TestGuarded(t *testing.T) {
	for _, p := range []string{
		".git/config", ".git", "a/.git/hooks/x", "a/b/.github/workflows/x.yml", ".envrc", "x/.envrc", ".palyra/policy/a.cedar",
		".vscode/tasks.json", ".idea/x", ".husky/pre-commit", "Jenkinsfile", ".ssh/authorized_keys", ".bashrc", ".claude/settings.json",
		".GIT/config", ".Git/HOOKS/x", "./.git/config", "a/../.git/config", `a\.git\config`, ".git /config", ".git./config", ".git::$INDEX_ALLOCATION/x",
		".g\u200bit/config", "\ufeff.git/config", "git~1/config", ".v\u017fcode/tasks.json", ".git/./config", ".git//config",
	} {
		if !guarded(p) {
			t.Errorf("%q is not guarded", p)
		}
	}
	for _, p := range []string{"a.txt", "git/config", ".gitignore", "a.git/x", "x.envrc", "src/palyra/x.go", "github/x", "...", " ", "docs/.gitkeep"} {
		if guarded(p) {
			t.Errorf("%q is guarded", p)
		}
	}
}
