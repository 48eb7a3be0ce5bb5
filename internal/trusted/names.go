package trusted

// controls are the files in a repository from which git takes commands, or where
// to find such files; safe is by convention what lets shells trust the project's
// own programs.
var controls = []string{"config", "config.worktree", "hooks", "info/attributes", "commondir", "safe"}

// versionControl: no repository may appear, whatever it looks like, and in those
// that exist the control files stay.
func versionControl() []group {
	git := []string{".git/", Repository + "/"}
	for _, c := range controls {
		git = append(git, ".git/"+c, ".git/modules/**/"+c, ".git/worktrees/**/"+c, Repository+"/"+c)
	}
	const layout = "https://git-scm.com/docs/gitrepository-layout"
	return []group{
		{VersionControl, Held, "git", layout, git},
		{VersionControl, Held, "git, where a configuration includes it", "https://git-scm.com/docs/git-config#_includes", []string{".gitconfig"}},
		{VersionControl, Held, "git on file systems with short names", layout, []string{"git~1"}},
		{VersionControl, Noted, "git", "https://git-scm.com/docs/gitattributes", []string{".gitattributes"}},
		{VersionControl, Noted, "git", "https://git-scm.com/docs/gitmodules", []string{".gitmodules"}},
		{VersionControl, Held, "git-lfs: where credentials go", "https://github.com/git-lfs/git-lfs/blob/main/docs/man/git-lfs-config.adoc", []string{".lfsconfig"}},
		{VersionControl, Asked, "git: a directory becomes a repository by it", layout, []string{"HEAD", "commondir"}},
		{VersionControl, Held, "Mercurial", "https://www.mercurial-scm.org/doc/hgrc.5.html", []string{
			".hg/", ".hg/hgrc", ".hg/hgrc-not-shared", ".hg/requires", ".hg/sharedpath",
		}},
		{VersionControl, Held, "Jujutsu", "https://jj-vcs.github.io/jj/latest/config/", []string{
			".jj/", ".jj/repo/", ".jj/repo/config.toml", ".jj/repo/config-id", ".jj/workspace-config.toml",
		}},
		{VersionControl, Held, "Sapling", "https://sapling-scm.com/docs/introduction/", []string{".sl/", ".sl/config", ".sl/hgrc", ".sl/sharedpath"}},
		{VersionControl, Held, "git-review, Arcanist, Review Board, Perforce: where changes go, and what is loaded", "https://www.reviewboard.org/docs/rbtools/latest/rbt/configuration/", []string{
			".gitreview", ".arcconfig", ".reviewboardrc", ".p4config",
		}},
		{VersionControl, Asked, "Subversion", "https://svnbook.red-bean.com", []string{".svn/"}},
	}
}

// environment is what shells, or programs hooked into them, read on entering a
// directory.
var environment = []group{
	{Shell, Held, "direnv, nix-direnv", "https://direnv.net/man/direnv.1.html", []string{".envrc", ".envrc.*", ".direnv/*.rc", ".direnv/bin"}},
	{Shell, Held, "mise", "https://mise.jdx.dev/configuration.html", []string{
		"mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml", ".mise", "mise/config.toml", "mise/config.*.toml",
		".config/mise.toml", ".config/mise.*.toml", ".config/mise", ".rtx.toml", ".rtx.*.toml", ".rtx", ".miserc.toml", ".config/miserc.toml",
	}},
	{Shell, Held, "asdf, mise", "https://asdf-vm.com/manage/configuration.html", []string{".tool-versions"}},
	{Shell, Held, "proto, vfox", "https://moonrepo.dev/docs/proto/config", []string{".prototools", ".vfox.toml"}},
	{Shell, Held, "autoenv, zsh-autoenv, smartcd", "https://github.com/hyperupcall/autoenv", []string{
		".autoenv.zsh", ".autoenv_leave.zsh", ".autoenv", ".autoenv.leave", ".env.leave", ".bash_enter", ".bash_leave",
	}},
	{Shell, Held, "RVM, rbenv-vars", "https://rvm.io/workflow/rvmrc", []string{".rvmrc", ".rbenv-vars"}},
	{Shell, Held, "shadowenv", "https://shopify.github.io/shadowenv/", []string{".shadowenv.d"}},
	{Shell, Held, "devenv, through its shell hook or direnv", "https://devenv.sh/automatic-shell-activation/", []string{
		"devenv.nix", "devenv.yaml", "devenv.local.nix", "devenv.local.yaml",
	}},
	{Shell, Held, "flox", "https://flox.dev/docs/concepts/environments/", []string{".flox/env", ".flox/env.json"}},
	{Shell, Noted, "autoenv, dotenv plugins, compose, editors", "https://github.com/hyperupcall/autoenv", []string{".env"}},
	{Shell, Noted, "nix, devbox: through direnv", "https://nix.dev/manual/nix/latest/command-ref/new-cli/nix3-develop", []string{
		"flake.nix", "shell.nix", "devbox.json",
	}},
	{Shell, Held, "shells, where a home is kept as a project", "https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html", []string{
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".inputrc", ".config/fish",
	}},
	{Shell, Held, "the desktop and tmux, where a home is kept as a project", "https://specifications.freedesktop.org/autostart/latest/", []string{
		".config/autostart", ".config/systemd", ".tmux.conf", ".config/tmux",
	}},
}

// toolchains take from these which program to run instead of themselves, or where
// to send their user's credentials, before they look at anything of the project.
// What installing and building writes is not here: .pnp.cjs, lock files.
var toolchains = []group{
	{Packages, Held, "npm, pnpm", "https://docs.npmjs.com/cli/configuring-npm/npmrc", []string{".npmrc"}},
	{Packages, Held, "pnpm", "https://pnpm.io/pnpmfile", []string{".pnpmfile.cjs", ".pnpmfile.mjs"}},
	{Packages, Noted, "pnpm: workspaces, and settings as in .npmrc", "https://pnpm.io/settings", []string{"pnpm-workspace.yaml"}},
	{Packages, Held, "yarn; editors, from its sdks", "https://yarnpkg.com/configuration/yarnrc", []string{".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".yarn/sdks"}},
	{Packages, Held, "corepack", "https://github.com/nodejs/corepack#environment-variables", []string{".corepack.env"}},
	{Packages, Noted, "bun", "https://bun.sh/docs/runtime/bunfig", []string{"bunfig.toml"}},
	{Packages, Held, "cargo", "https://doc.rust-lang.org/cargo/reference/config.html", []string{
		".cargo/config", ".cargo/config.toml", ".cargo/credentials", ".cargo/credentials.toml",
	}},
	{Packages, Held, "rustup", "https://rust-lang.github.io/rustup/overrides.html", []string{"rust-toolchain", "rust-toolchain.toml"}},
	{Packages, Held, "uv, poetry, twine", "https://docs.astral.sh/uv/concepts/configuration-files/", []string{"uv.toml", "poetry.toml", ".pypirc"}},
	{Packages, Held, "uv: which Python is run, also by its path", "https://docs.astral.sh/uv/concepts/python-versions/", []string{".python-version", ".python-versions"}},
	{Packages, Held, "pip in a virtual environment, PDM, pixi", "https://pip.pypa.io/en/stable/topics/configuration/", []string{
		"pip.conf", "pip.ini", "pdm.toml", ".pdm.toml", ".pdm-python", ".pixi/config.toml",
	}},
	{Packages, Noted, "bundler", "https://bundler.io/man/bundle-config.1.html", []string{".bundle/config"}},
	{Packages, Held, "Maven", "https://maven.apache.org/configure.html", []string{
		".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml", ".mvn/settings.xml", ".mvn/maven-settings.xml", ".mvn/maven.properties", ".mvn/maven-user.properties", ".mvn/maven-system.properties",
	}},
	{Packages, Noted, "Gradle: which Java runs it and with what, also for editors", "https://docs.gradle.org/current/userguide/build_environment.html", []string{"gradle.properties"}},
	{Packages, Held, "sbt, Mill: what the Java that runs them loads", "https://www.scala-sbt.org/1.x/docs/Command-Line-Reference.html", []string{
		".sbtopts", ".jvmopts", ".sbtrc", ".mill-jvm-opts", ".mill-opts",
	}},
	{Packages, Noted, "wrappers of Maven and Gradle, which editors start", "https://docs.gradle.org/current/userguide/gradle_wrapper.html", []string{
		".mvn/wrapper/*", "gradle/wrapper/*",
	}},
	{Packages, Held, "Bazelisk: which Bazel is run", "https://github.com/bazelbuild/bazelisk", []string{".bazeliskrc", ".bazelversion"}},
	{Packages, Asked, "Bazelisk: what is run instead of Bazel", "https://github.com/bazelbuild/bazelisk", []string{"tools/bazel", "tools/bazel.*"}},
	{Packages, Noted, "Bazel, Buck", "https://bazel.build/run/bazelrc", []string{".bazelrc", ".buckconfig", ".buckconfig.local"}},
	{Packages, Held, "Swift's package manager", "https://www.swift.org/documentation/package-manager/", []string{".swiftpm/configuration"}},
	{Packages, Held, "NuGet", "https://learn.microsoft.com/nuget/reference/nuget-config-file", []string{"nuget.config"}},
}

// editors run tasks, terminals and language servers by these.
var editors = []group{
	{Editor, Held, "VS Code and its kin", "https://code.visualstudio.com/docs/configure/settings", []string{".vscode", "*.code-workspace", ".theia"}},
	{Editor, Held, "development containers", "https://containers.dev/implementors/spec/", []string{".devcontainer", ".devcontainer.json"}},
	{Editor, Held, "Gitpod, Codespaces' like", "https://www.gitpod.io/docs/references/gitpod-yml", []string{".gitpod.yml", ".gitpod.dockerfile", "devfile.yaml", ".devfile.yaml"}},
	{Editor, Held, "JetBrains", "https://www.jetbrains.com/help/idea/run-debug-configuration.html", []string{".idea", ".run", ".fleet", "*.iws", "*.ipr"}},
	{Editor, Held, "Visual Studio", "https://learn.microsoft.com/visualstudio/ide/customize-build-and-debug-tasks-in-visual-studio", []string{".vs", "tasks.vs.json", "launch.vs.json"}},
	{Editor, Held, "Zed", "https://zed.dev/docs/tasks", []string{".zed"}},
	{Editor, Held, "Helix", "https://docs.helix-editor.com/configuration.html", []string{".helix"}},
	{Editor, Held, "Sublime Text, Kate, Lite XL", "https://www.sublimetext.com/docs/projects.html", []string{
		"*.sublime-project", "*.sublime-workspace", ".kateproject", ".kateproject.*", ".lite_project.lua",
	}},
	{Editor, Held, "machines in the cloud that are set up from the project", "https://firebase.google.com/docs/studio/customize-workspace", []string{
		".idx", ".replit", "replit.nix", ".stackblitzrc", ".codesandbox", ".gitpod",
	}},
	{Editor, Held, "Nova, Eclipse", "https://help.nova.app", []string{".nova", ".project", ".externalToolBuilders"}},
	{Editor, Held, "Vim, Neovim", "https://neovim.io/doc/user/options.html#'exrc'", []string{
		".vim", ".vimrc", "_vimrc", ".exrc", "_exrc", ".gvimrc", ".nvim.lua", ".nvimrc", ".lvimrc", ".local.vimrc", ".lazy.lua", ".vimspector.json",
		".neoconf.json", ".nlsp-settings", ".ycm_extra_conf.py",
	}},
	{Editor, Held, "Emacs", "https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html", []string{".dir-locals.el", ".dir-locals-2.el"}},
	{Editor, Held, "Kakoune, with a local configuration", "https://github.com/mawww/kakoune", []string{".kakrc", ".kakrc.local"}},
	{Editor, Held, "clangd, ccls: which compiler they ask", "https://clangd.llvm.org/config", []string{".clangd", ".ccls"}},
	{Editor, Held, "language servers: plugins and commands of theirs", "https://luals.github.io/wiki/configuration/", []string{
		".luarc.json", ".luarc.jsonc", "rust-analyzer.toml", ".rust-analyzer.toml", "rust-analyzer.json", "coc-settings.json", ".sourcekit-lsp", "buildServer.json",
	}},
	{Editor, Asked, "editors that build by the Build Server Protocol; sbt writes it anew", "https://build-server-protocol.github.io/docs/overview/server-discovery", []string{".bsp/"}},
	{Editor, Noted, "pylint, which editors start: init-hook", "https://pylint.readthedocs.io/en/stable/user_guide/configuration/all-options.html", []string{".pylintrc", "pylintrc"}},
	{Editor, Held, "interpreters and debuggers, from the directory that they are started in", "https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html", []string{
		".Rprofile", ".Renviron", ".octaverc", ".pdbrc", ".irbrc", ".pryrc", ".byebugrc", ".ghci", ".ocamlinit", ".iex.exs", ".erlang", "jupyter_*config.py", "jupyter_*config.json",
	}},
	{Editor, Noted, "editors", "https://editorconfig.org", []string{".editorconfig"}},
}

// hooks are what hook managers install from and run.
var hooks = []group{
	{Hooks, Held, "husky", "https://typicode.github.io/husky/", []string{".husky", ".huskyrc", ".huskyrc.js", ".huskyrc.json", ".huskyrc.yml", ".huskyrc.yaml", "husky.config.js"}},
	{Hooks, Held, "git, where core.hooksPath says so", "https://git-scm.com/docs/githooks", []string{".githooks", ".git-hooks"}},
	{Hooks, Held, "pre-commit, prek", "https://pre-commit.com", []string{".pre-commit-config.yaml", ".pre-commit-config.yml", ".pre-commit-hooks.yaml", "prek.toml"}},
	{Hooks, Held, "overcommit", "https://github.com/sds/overcommit", []string{".overcommit.yml", ".local-overcommit.yml"}},
	{Hooks, Held, "lefthook", "https://lefthook.dev/configuration", append(
		endings([]string{"yml", "yaml", "toml", "json", "jsonc"}, "lefthook", "lefthook-local", ".lefthook", ".lefthook-local", ".config/lefthook", ".config/lefthook-local"),
		".lefthook", ".lefthook-local")},
	{Hooks, Held, "simple-git-hooks, lint-staged", "https://github.com/toplenboren/simple-git-hooks", append(
		endings([]string{"js", "cjs", "mjs", "ts", "json", "yml", "yaml"}, ".simple-git-hooks", "simple-git-hooks", ".lintstagedrc", "lint-staged.config"),
		".lintstagedrc")},
	{Hooks, Held, "commitlint", "https://commitlint.js.org/reference/configuration.html", append(
		endings([]string{"js", "cjs", "mjs", "ts", "cts", "mts", "json", "yml", "yaml"}, ".commitlintrc", "commitlint.config"),
		".commitlintrc")},
	{Hooks, Held, "Trunk, rusty-hook", "https://docs.trunk.io/cli/getting-started/actions/git-hooks", []string{".trunk", ".rusty-hook.toml"}},
	{Hooks, Held, "captainhook, cargo-husky, hk, grumphp", "https://captainhook-git.github.io/captainhook/", []string{
		"captainhook.json", ".cargo-husky", "hk.pkl", "hk.local.pkl", ".config/hk.pkl", "grumphp.yml", "grumphp.yml.dist",
	}},
}

// services run with other people's secrets.
var services = []group{
	{CI, Asked, "GitHub", "https://docs.github.com/actions", []string{".github/"}},
	{CI, Held, "GitHub", "https://docs.github.com/actions", []string{".github/workflows", ".github/actions", ".github/dependabot.yml", ".github/dependabot.yaml"}},
	{CI, Held, "GitLab", "https://docs.gitlab.com/ci/yaml/", []string{".gitlab-ci.yml", ".gitlab-ci.yaml", ".gitlab/ci", ".gitlab/agents", ".gitlab/duo"}},
	{CI, Held, "CircleCI, Travis, AppVeyor", "https://circleci.com/docs/configuration-reference/", []string{".circleci", ".travis.yml", "appveyor.yml", ".appveyor.yml"}},
	{CI, Held, "Azure Pipelines", "https://learn.microsoft.com/azure/devops/pipelines/", []string{
		".azure-pipelines", "azure-pipelines.yml", "azure-pipelines.yaml", "azure-pipelines.*.yml", ".vsts-ci.yml",
	}},
	{CI, Held, "Jenkins", "https://www.jenkins.io/doc/book/pipeline/jenkinsfile/", []string{"Jenkinsfile", "Jenkinsfile.*", "*.jenkinsfile"}},
	{CI, Held, "Bitbucket", "https://support.atlassian.com/bitbucket-cloud/docs/bitbucket-pipelines-configuration-reference/", []string{"bitbucket-pipelines.yml"}},
	{CI, Held, "Drone, Woodpecker, Forgejo, Gitea", "https://woodpecker-ci.org/docs/usage/workflow-syntax", []string{
		".drone.yml", ".drone.yaml", ".drone.star", ".drone.jsonnet", ".woodpecker", ".woodpecker.yml", ".woodpecker.yaml", ".forgejo/workflows", ".forgejo/actions", ".gitea/workflows", ".gitea/actions",
	}},
	{CI, Held, "Buildkite, TeamCity, Semaphore, Cirrus, Tekton", "https://buildkite.com/docs/pipelines", []string{
		".buildkite", "buildkite.yml", ".teamcity", ".semaphore", ".cirrus.yml", ".cirrus.star", ".tekton",
	}},
	{CI, Held, "sourcehut, Codefresh, Wercker, Codemagic, Bitrise", "https://man.sr.ht/builds.sr.ht/", []string{
		".build.yml", ".builds", "codefresh.yml", ".codefresh", "wercker.yml", "codemagic.yaml", "bitrise.yml", ".screwdriver.yaml", "screwdriver.yaml",
	}},
	{CI, Noted, "Netlify, Vercel, Render, Heroku: what they build with, once it is pushed", "https://docs.netlify.com/build/configure-builds/file-based-configuration/", []string{
		"netlify.toml", "vercel.json", "render.yaml", "heroku.yml",
	}},
	{CI, Held, "reviewers by machine", "https://qodo-merge-docs.qodo.ai/usage-guide/configuration_options/", []string{".pr_agent.toml", ".coderabbit.yaml", ".coderabbit.yml"}},
	{CI, Held, "Cloud Build, CodeBuild, Read the Docs", "https://cloud.google.com/build/docs/build-config-file-schema", []string{
		"cloudbuild.yaml", "cloudbuild.yml", "cloudbuild.json", "buildspec.yml", "buildspec.yaml", "amplify.yml", ".readthedocs.yaml", ".readthedocs.yml",
	}},
	{CI, Held, "Dagger, Earthly, Concourse, Zuul, Prow", "https://zuul-ci.org/docs/zuul/latest/config/", []string{
		".zuul.yaml", ".zuul.d", "zuul.yaml", "zuul.d", ".prow.yaml", ".prow", ".ci-operator.yaml", ".hound.yml", ".lgtm.yml",
	}},
	{CI, Held, "Renovate", "https://docs.renovatebot.com/configuration-options/", []string{"renovate.json", "renovate.json5", ".renovaterc", ".renovaterc.json", ".renovaterc.json5"}},
}

// agents read their permissions, servers, hooks and commands from these.
var agents = []group{
	{Agent, Held, "Claude Code", "https://code.claude.com/docs/en/settings", []string{".claude", ".claude-plugin", ".claude.json"}},
	{Agent, Held, "MCP clients", "https://modelcontextprotocol.io", []string{".mcp.json"}},
	{Agent, Held, "Cursor, Windsurf, Trae, Kiro", "https://docs.cursor.com", []string{".cursor", ".windsurf", ".codeium", ".trae", ".kiro", ".qoder", ".antigravity"}},
	{Agent, Held, "Codex, Gemini, Qwen, Crush, opencode, goose", "https://developers.openai.com/codex/config", []string{
		".codex", ".gemini", ".qwen", ".crush", ".crush.json", "crush.json", ".opencode", "opencode.json", "opencode.jsonc", ".amp", ".iflow", ".goose", ".grok", ".kimi", ".vibe", ".pi",
	}},
	{Agent, Held, "Cline, Roo, Kilo, Continue, Augment", "https://docs.cline.bot", []string{
		".cline", ".clinerules", ".roo", ".roomodes", ".kilocode", ".kilocodemodes", ".kilo", "kilo.json", "kilo.jsonc", ".continue", ".continuerc.json", ".augment", ".tabnine", ".serena",
		".codebuddy", ".qodo", ".aiassistant",
	}},
	{Agent, Held, "Copilot", "https://docs.github.com/copilot/reference/hooks-configuration", []string{
		".github/hooks", ".github/agents", ".github/chatmodes", ".github/extensions", ".github/mcp.json", ".github/copilot", ".github/skills", ".github/lsp.json", ".copilot",
	}},
	{Agent, Held, "Amazon Q, Junie, Factory, OpenHands, Jules", "https://docs.aws.amazon.com/amazonq/", []string{
		".amazonq", ".junie", ".factory", ".openhands", ".jules", ".devin", ".warp", ".zencoder", ".rovodev",
	}},
	{Agent, Held, "aider", "https://aider.chat/docs/config/aider_conf.html", []string{".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json"}},
	{Agent, Held, "agents in general: skills, commands, settings", "https://agentskills.io", []string{".agents", ".agent"}},
}

// instructions are words that agents follow. They start no program, and keeping
// them up to date is work that agents are given, so a run may write them; but the
// next agent, perhaps one outside any sandbox, takes them for its owner's words.
// A tool's write is asked about, and a run's is in its outcome.
var instructions = []group{
	{Agent, Noted, "agents", "https://agents.md", []string{
		"AGENTS.md", "AGENTS.override.md", "AGENT.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "QWEN.md", "CRUSH.md", "CONVENTIONS.md", "OPENCODE.md", "WARP.md",
		".cursorrules", ".windsurfrules", ".goosehints", ".roorules", ".rules", "copilot-instructions.md",
	}},
}

// rest are credentials, and Palyra's own.
var rest = []group{
	{Own, Held, "Palyra", "docs/formats.md", []string{".palyra"}},
	{Credentials, Held, "ssh, gpg", "https://man.openbsd.org/ssh_config", []string{".ssh", ".gnupg"}},
	{Credentials, Held, "clouds and clusters: programs that give credentials are named there", "https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins", []string{
		".kube", ".aws", ".docker/config.json",
	}},
	{Credentials, Held, "curl, git, ftp", "https://curl.se/docs/manpage.html", []string{".netrc", "_netrc", ".git-credentials"}},
	{Shell, Held, "gdb, lldb", "https://sourceware.org/gdb/current/onlinedocs/gdb.html/Init-File-in-the-Current-Directory.html", []string{".gdbinit", ".lldbinit"}},
}

// endings are names with each of several endings.
func endings(ends []string, names ...string) []string {
	var out []string
	for _, n := range names {
		for _, e := range ends {
			out = append(out, n+"."+e)
		}
	}
	return out
}
