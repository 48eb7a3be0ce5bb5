package trusted

// controls are the files in a repository from which git takes commands, where to
// find such files, or where to fetch from and push to.
var controls = []string{"config", "config.worktree", "hooks", "info/attributes", "commondir", "remotes", "branches"}

// versionControl: no repository may appear, whatever it looks like, and in those
// that exist the control files stay.
func versionControl() []group {
	git := []string{".git/", Repository + "/"}
	for _, c := range controls {
		git = append(git, inRepository(c)...)
	}
	const layout = "https://git-scm.com/docs/gitrepository-layout"
	return []group{
		{VersionControl, Held, "git", read(layout), git},
		{
			VersionControl, Held, "shells that trust a project's own programs by it",
			seen("https://github.com/christoomey/vim-trusted-local"),
			inRepository("safe"),
		},
		{
			VersionControl, Held, "git, where a configuration includes it",
			known("https://git-scm.com/docs/git-config#_includes"),
			[]string{".gitconfig"},
		},
		{VersionControl, Held, "git on file systems with short names", known(layout), []string{"git~1"}},
		{VersionControl, Noted, "git", known("https://git-scm.com/docs/gitattributes"), []string{".gitattributes"}},
		{VersionControl, Noted, "git", known("https://git-scm.com/docs/gitmodules"), []string{".gitmodules"}},
		{
			VersionControl, Held, "git-lfs: where credentials go",
			known("https://github.com/git-lfs/git-lfs/blob/main/docs/man/git-lfs-config.adoc"),
			[]string{".lfsconfig"},
		},
		{VersionControl, Asked, "git: a directory becomes a repository by it", read(layout), []string{
			"HEAD", "commondir",
		}},
		{VersionControl, Held, "Mercurial", known("https://www.mercurial-scm.org/doc/hgrc.5.html"), []string{
			".hg/", ".hg/hgrc", ".hg/hgrc-not-shared", ".hg/requires", ".hg/sharedpath",
		}},
		{
			VersionControl, Held, "Jujutsu: settings, which later versions keep outside, and by what they find them",
			known("https://jj-vcs.github.io/jj/latest/config/"),
			[]string{".jj/", ".jj/repo/", ".jj/repo/config.toml", ".jj/repo/config-id", ".jj/workspace-config.toml"},
		},
		{VersionControl, Held, "Sapling", known("https://sapling-scm.com/docs/introduction/"), []string{
			".sl/", ".sl/config", ".sl/hgrc", ".sl/sharedpath",
		}},
		{
			VersionControl, Held, "git-review, Arcanist, Review Board, Perforce: where changes go, and what is loaded",
			known("https://www.reviewboard.org/docs/rbtools/latest/rbt/configuration/"),
			[]string{".gitreview", ".arcconfig", ".reviewboardrc", ".p4config"},
		},
		{VersionControl, Asked, "Subversion", known("https://svnbook.red-bean.com"), []string{".svn/"}},
	}
}

// inRepository is a file of every kind of repository.
func inRepository(name string) []string {
	return []string{".git/" + name, ".git/modules/**/" + name, ".git/worktrees/**/" + name, Repository + "/" + name}
}

// environment is what shells, or programs hooked into them, read on entering a
// directory.
var environment = []group{
	{Shell, Held, "direnv", read("https://direnv.net/man/direnv.1.html"), []string{".envrc", ".config/direnv"}},
	{
		Shell, Held, "direnv, nix-direnv: what .envrc calls, and what they keep",
		known("https://github.com/nix-community/nix-direnv"),
		[]string{".envrc.*", ".direnv/*.rc", ".direnv/bin"},
	},
	{Shell, Held, "mise", read("https://mise.jdx.dev/configuration.html"), []string{
		"mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml", ".mise", "mise/config.toml",
		"mise/config.*.toml", "mise/conf.d", ".config/mise.toml", ".config/mise.*.toml", ".config/mise",
		".rtx.toml", ".rtx.*.toml", ".rtx", ".miserc.toml", ".config/miserc.toml",
	}},
	{Shell, Held, "asdf, mise", read("https://mise.jdx.dev/configuration.html#tool-versions"), []string{
		".tool-versions",
	}},
	{Shell, Held, "proto", read("https://moonrepo.dev/docs/proto/commands/activate"), []string{".prototools"}},
	{Shell, Held, "vfox", known("https://vfox.dev"), []string{".vfox.toml"}},
	{
		Shell, Held, "aqua, which installs what is called",
		read("https://aquaproj.github.io/docs/reference/config/"),
		[]string{"aqua.yaml", "aqua.yml", ".aqua.yaml", ".aqua.yml"},
	},
	{Shell, Held, "Hermit, through its shell hooks", read("https://cashapp.github.io/hermit/usage/shell"), []string{
		"hermit.hcl", "activate-hermit", "activate-hermit.fish",
	}},
	{
		Shell, Asked, "Hermit: what is run instead of the system's",
		read("https://cashapp.github.io/hermit/usage/get-started"),
		[]string{"bin/hermit"},
	},
	{Shell, Held, "autoenv", read("https://github.com/hyperupcall/autoenv"), []string{".env.leave"}},
	{Shell, Held, "autoenv, zsh-autoenv, smartcd", known("https://github.com/hyperupcall/autoenv"), []string{
		".autoenv.zsh", ".autoenv_leave.zsh", ".autoenv", ".autoenv.leave", ".bash_enter", ".bash_leave",
	}},
	{Shell, Held, "RVM", read("https://rvm.io/workflow/projects"), []string{".rvmrc", ".versions.conf"}},
	{Shell, Held, "rbenv-vars", known("https://github.com/rbenv/rbenv-vars"), []string{".rbenv-vars"}},
	{
		Shell, Noted, "version managers: which of the installed is run",
		read("https://mise.jdx.dev/configuration.html#idiomatic-version-files"),
		[]string{
			".ruby-version", ".ruby-gemset", ".node-version", ".nvmrc", ".java-version", ".sdkmanrc",
			".go-version", ".crystal-version", ".exenv-version", ".terraform-version", ".packer-version",
		},
	},
	{Shell, Held, "shadowenv", known("https://shopify.github.io/shadowenv/"), []string{".shadowenv.d"}},
	{Shell, Held, "devenv, through its shell hook or direnv", read("https://devenv.sh/auto-activation/"), []string{
		"devenv.nix", "devenv.yaml", "devenv.local.nix", "devenv.local.yaml",
	}},
	{Shell, Held, "flox", read("https://flox.dev/docs/concepts/auto-activation"), []string{
		".flox/env", ".flox/env.json",
	}},
	{
		Shell, Noted, "autoenv, dotenv plugins, compose, editors",
		read("https://github.com/hyperupcall/autoenv"),
		[]string{".env"},
	},
	{Shell, Noted, "nix: through direnv", read("https://nix.dev/guides/recipes/direnv"), []string{"shell.nix"}},
	{
		Shell, Noted, "nix, devbox: through direnv",
		known("https://www.jetify.com/docs/devbox/ide_configuration/direnv/"),
		[]string{"flake.nix", "devbox.json"},
	},
	{Shell, Noted, "pkgx dev, where it was switched on", read("https://github.com/pkgxdev/dev"), []string{"pkgx.yaml"}},
	{
		Shell, Held, "tmuxinator: the windows of a session and what runs in them",
		read("https://github.com/tmuxinator/tmuxinator"),
		[]string{".tmuxinator.yml"},
	},
	{Shell, Held, "tmuxp: the same", read("https://tmuxp.git-pull.com"), []string{
		".tmuxp.yaml", ".tmuxp.yml", ".tmuxp.json", ".tmuxp.py",
	}},
	{
		Shell, Held, "git, where a home is kept as a project",
		known("https://git-scm.com/docs/git-config#FILES"),
		[]string{".config/git"},
	},
	{
		Shell, Held, "husky, where a home is kept as a project",
		read("https://typicode.github.io/husky/how-to.html"),
		[]string{".config/husky"},
	},
	{
		Shell, Held, "shells, where a home is kept as a project",
		known("https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html"),
		[]string{
			".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc",
			".zshenv", ".zprofile", ".zlogin", ".zlogout", ".inputrc", ".config/fish",
		},
	},
	{
		Shell, Held, "the desktop and tmux, where a home is kept as a project",
		known("https://specifications.freedesktop.org/autostart/latest/"),
		[]string{".config/autostart", ".config/systemd", ".tmux.conf", ".config/tmux"},
	},
}

// toolchains take from these which program to run instead of themselves, or where
// to send their user's credentials, before they look at anything of the project.
// What installing and building writes is not here: .pnp.cjs, lock files.
var toolchains = []group{
	{Packages, Held, "npm, pnpm", read("https://docs.npmjs.com/cli/configuring-npm/npmrc"), []string{".npmrc"}},
	{Packages, Held, "pnpm", read("https://pnpm.io/pnpmfile"), []string{".pnpmfile.cjs", ".pnpmfile.mjs"}},
	{Packages, Noted, "pnpm: workspaces, and settings as in .npmrc", known("https://pnpm.io/settings"), []string{
		"pnpm-workspace.yaml",
	}},
	{Packages, Held, "yarn; editors, from its sdks", known("https://yarnpkg.com/configuration/yarnrc"), []string{
		".yarnrc", ".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".yarn/sdks",
	}},
	{Packages, Held, "corepack", known("https://github.com/nodejs/corepack#environment-variables"), []string{
		".corepack.env",
	}},
	{Packages, Noted, "bun", known("https://bun.sh/docs/runtime/bunfig"), []string{"bunfig.toml"}},
	{Packages, Held, "cargo", known("https://doc.rust-lang.org/cargo/reference/config.html"), []string{
		".cargo/config", ".cargo/config.toml", ".cargo/credentials", ".cargo/credentials.toml",
	}},
	{Packages, Held, "rustup", read("https://rust-lang.github.io/rustup/overrides.html"), []string{
		"rust-toolchain", "rust-toolchain.toml",
	}},
	{Packages, Held, "uv", read("https://docs.astral.sh/uv/concepts/configuration-files/"), []string{"uv.toml"}},
	{Packages, Held, "poetry, twine", known("https://python-poetry.org/docs/configuration/"), []string{
		"poetry.toml", ".pypirc",
	}},
	{
		Packages, Held, "uv: which Python is run, also by its path",
		known("https://docs.astral.sh/uv/concepts/python-versions/"),
		[]string{".python-version", ".python-versions"},
	},
	{Packages, Held, "pip in a virtual environment", read("https://pip.pypa.io/en/stable/topics/configuration/"), []string{
		"pip.conf", "pip.ini",
	}},
	{Packages, Held, "PDM, pixi", known("https://pdm-project.org/latest/usage/config/"), []string{
		"pdm.toml", ".pdm.toml", ".pdm-python", ".pixi/config.toml",
	}},
	{Packages, Noted, "bundler", known("https://bundler.io/man/bundle-config.1.html"), []string{".bundle/config"}},
	{Packages, Held, "Maven", read("https://maven.apache.org/configure.html"), []string{
		".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml",
	}},
	{
		Packages, Held, "Maven 4, and projects that name such files",
		known("https://maven.apache.org/whatsnewinmaven4.html"),
		[]string{
			".mvn/settings.xml", ".mvn/maven-settings.xml", ".mvn/maven.properties", ".mvn/maven-user.properties",
			".mvn/maven-system.properties",
		},
	},
	{Packages, Held, "mvnd: with what Java its daemon is run", read("https://github.com/apache/maven-mvnd"), []string{
		".mvn/mvnd.properties",
	}},
	{
		Packages, Noted, "Gradle: which Java runs it and with what, also for editors",
		known("https://docs.gradle.org/current/userguide/build_environment.html"),
		[]string{"gradle.properties"},
	},
	{
		Packages, Noted, "Gradle: the same, for its daemon",
		read("https://docs.gradle.org/current/userguide/gradle_daemon.html"),
		[]string{"gradle/gradle-daemon-jvm.properties"},
	},
	{
		Packages, Held, "sbt, Mill: what the Java that runs them loads",
		known("https://www.scala-sbt.org/1.x/docs/Command-Line-Reference.html"),
		[]string{".sbtopts", ".jvmopts", ".sbtrc", ".mill-jvm-opts", ".mill-opts"},
	},
	{
		Packages, Noted, "wrappers of Maven and Gradle, which editors start",
		known("https://docs.gradle.org/current/userguide/gradle_wrapper.html"),
		[]string{".mvn/wrapper/*", "gradle/wrapper/*"},
	},
	{Packages, Held, "Bazelisk: which Bazel is run", read("https://github.com/bazelbuild/bazelisk"), []string{
		".bazeliskrc", ".bazelversion",
	}},
	{
		Packages, Asked, "Bazelisk: what is run instead of Bazel",
		read("https://github.com/bazelbuild/bazelisk"),
		[]string{"tools/bazel", "tools/bazel.*"},
	},
	{Packages, Noted, "Bazel", read("https://bazel.build/run/bazelrc"), []string{".bazelrc"}},
	{Packages, Noted, "Buck", known("https://buck2.build/docs/concepts/buckconfig/"), []string{
		".buckconfig", ".buckconfig.local",
	}},
	{
		Packages, Held, "Conan: its home, where profiles, hooks and commands are",
		read("https://docs.conan.io/2/reference/config_files/conanrc.html"),
		[]string{".conanrc"},
	},
	{Packages, Held, "Swift's package manager", known("https://www.swift.org/documentation/package-manager/"), []string{
		".swiftpm/configuration",
	}},
	{Packages, Held, "NuGet", known("https://learn.microsoft.com/nuget/reference/nuget-config-file"), []string{
		"nuget.config",
	}},
}
