package seal

import "slices"

// ownDir is Palyra's directory in a workspace; penDir in it has what was moved
// away, and is not looked at.
const (
	ownDir = ".palyra"
	penDir = "quarantine"
)

// repository stands for a directory that git takes for a repository of its own.
const repository = "<repository>"

// Default are the names that are sealed unless a profile says otherwise.
var Default = slices.Concat(git(), others, local, tools, editors, hooks, ci, agents)

// controls are the files in a repository from which git takes commands, or where
// to find such files.
var controls = []string{"config", "config.worktree", "hooks", "info/attributes", "commondir"}

// git: no repository may appear, whatever it looks like, and in those that exist
// the control files stay.
func git() []string {
	names := []string{".git/", repository + "/"}
	for _, c := range controls {
		names = append(names, ".git/"+c, ".git/modules/**/"+c, ".git/worktrees/**/"+c, repository+"/"+c)
	}
	return names
}

// others are the same of other version control.
var others = []string{".hg/", ".hg/hgrc", ".hg/hgrc-not-shared", ".hg/requires", ".hg/sharedpath", ".jj/", ".jj/repo/config.toml"}

// local is what shells read on entering a directory, and Palyra's own.
var local = []string{
	ownDir, ".envrc", "mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml", ".mise", "mise/config.toml", ".config/mise.toml", ".config/mise",
	".autoenv.zsh", ".autoenv",
}

// tools take from these which program to run instead of themselves, or where to
// send their user's credentials, before they look at anything of the project.
// What installing and building writes is not here: .pnp.cjs, lock files.
var tools = []string{
	".npmrc", ".pnpmfile.cjs", ".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".cargo/config", ".cargo/config.toml",
}

// editors run tasks, terminals and language servers by these.
var editors = []string{
	".vscode", "*.code-workspace", ".idea", ".fleet", ".zed", "*.sublime-project",
	".vim", ".vimrc", ".exrc", ".gvimrc", ".nvim.lua", ".nvimrc", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el",
	".devcontainer", ".devcontainer.json",
}

// hooks are what hook managers install from.
var hooks = []string{
	".husky", ".githooks", ".pre-commit-config.yaml", ".pre-commit-config.yml", ".overcommit.yml",
	"lefthook.yml", "lefthook.yaml", "lefthook.toml", ".lefthook.yml", ".lefthook.yaml", ".lefthook.toml", ".lefthook", ".lefthook-local.yml",
}

// ci runs with other people's secrets.
var ci = []string{
	".github/workflows", ".github/actions", ".gitlab-ci.yml", ".gitlab/ci", ".circleci", ".travis.yml", ".azure-pipelines",
	"azure-pipelines.yml", "Jenkinsfile", "bitbucket-pipelines.yml", ".drone.yml", ".woodpecker", ".woodpecker.yml", ".woodpecker.yaml",
	".buildkite", "appveyor.yml", ".appveyor.yml", ".forgejo/workflows", ".gitea/workflows", ".teamcity", ".semaphore", ".cirrus.yml", ".tekton",
}

// agents read their permissions, servers and commands from these.
var agents = []string{
	".claude", ".mcp.json", ".cursor", ".codex", ".gemini", ".continue", ".windsurf", ".cline", ".roo", ".kiro", ".amazonq", ".opencode",
	"opencode.json", ".aider.conf.yml", ".agents",
}
