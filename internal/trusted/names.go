package trusted

// controls are the files in a repository from which git takes commands, where to
// find such files, or where to fetch from and push to.
var controls = []string{"config", "config.worktree", "hooks", "info/attributes", "commondir", "remotes", "branches"}

// layout is where git says what a repository consists of.
const layout = "https://git-scm.com/docs/gitrepository-layout"

// versionControl: no repository may appear, whatever it looks like, and in those
// that exist the control files stay.
var versionControl = []group{
	{VersionControl, Held, "git", read(layout), repositories()},
	{
		VersionControl, Held, "shells that trust a project's own programs by it",
		seen("https://github.com/christoomey/vim-trusted-local"),
		inRepository("safe"),
	},
	{
		VersionControl, Held, "git: a user's own, where a home is kept as a project or a configuration includes it",
		read("https://git-scm.com/docs/git-config#FILES"),
		[]string{".gitconfig"},
	},
	{
		VersionControl, Held, "git on file systems with short names",
		read("https://git-scm.com/docs/git-config#Documentation/git-config.txt-coreprotectNTFS"),
		[]string{"git~1"},
	},
	{
		VersionControl, Noted, "git: which filter, diff and merge programs of its configuration it starts",
		read("https://git-scm.com/docs/gitattributes"),
		[]string{".gitattributes"},
	},
	{
		VersionControl, Noted, "git: where submodules are fetched from",
		read("https://git-scm.com/docs/gitmodules"),
		[]string{".gitmodules"},
	},
	{
		VersionControl, Held, "git-lfs: which server it talks to",
		read("https://github.com/git-lfs/git-lfs/blob/main/docs/api/server-discovery.md"),
		[]string{".lfsconfig"},
	},
	{VersionControl, Asked, "git: a directory becomes a repository by it", read(layout), []string{
		"HEAD", "commondir",
	}},
	{VersionControl, Held, "Mercurial", read("https://www.mercurial-scm.org/doc/hgrc.5.html"), []string{
		".hg/", ".hg/hgrc", ".hg/hgrc-not-shared",
	}},
	{
		VersionControl, Held, "Mercurial: where the store and the settings of a shared repository are",
		read("https://www.mercurial-scm.org/help/topics/internals.requirements"),
		[]string{".hg/requires", ".hg/sharedpath"},
	},
	{
		VersionControl, Held, "Jujutsu: settings, which later versions keep outside, and by what they find them",
		read("https://github.com/jj-vcs/jj/blob/main/docs/design/secure-config.md"),
		[]string{
			".jj/", ".jj/repo/", ".jj/repo/config.toml", ".jj/repo/config-id", ".jj/workspace-config.toml",
			".jj/workspace-config-id",
		},
	},
	{
		VersionControl, Held, "Sapling: the settings of a repository (its own tests say which)",
		read("https://sapling-scm.com/docs/commands/config"),
		append([]string{".sl/", ".sl/config"}, inRepository("sl/config")...),
	},
	{
		VersionControl, Held, "Sapling: further files of a repository, by its own tests",
		seen("https://github.com/facebook/sapling"),
		[]string{".sl/requires", ".sl/hgrc.dynamic"},
	},
	{
		VersionControl, Held, "Sapling: the store of a shared repository",
		sought("https://sapling-scm.com/docs/introduction/", "its own tests, in which nothing is shared"),
		[]string{".sl/sharedpath"},
	},
	{
		VersionControl, Held, "git-review: which Gerrit changes go to",
		read("https://docs.opendev.org/opendev/git-review/latest/installation.html"),
		[]string{".gitreview"},
	},
	{
		VersionControl, Held, "Arcanist: which libraries it loads",
		read("https://manpages.debian.org/bookworm/arcanist/arcanist.1.en.html"),
		[]string{".arcconfig"},
	},
	{
		VersionControl, Held, "Review Board's rbt, which runs it as Python",
		read("https://www.reviewboard.org/docs/rbtools/latest/rbt/configuration/"),
		[]string{".reviewboardrc"},
	},
	{
		VersionControl, Held, "Perforce, where P4CONFIG names it so: which server and user",
		read("https://www.perforce.com/manuals/cmdref/Content/CmdRef/P4CONFIG.html"),
		[]string{".p4config", ".p4config.txt"},
	},
	{
		VersionControl, Asked, "Subversion",
		sought("https://svnbook.red-bean.com", "its manual pages, which say nothing of it"),
		[]string{".svn/"},
	},
}

// repositories are the names that make a repository, and the control files in each kind.
func repositories() []string {
	out := []string{".git/", Repository + "/"}
	for _, c := range controls {
		out = append(out, inRepository(c)...)
	}
	return out
}

// inRepository is a file of every kind of repository.
func inRepository(name string) []string {
	return []string{".git/" + name, ".git/modules/**/" + name, ".git/worktrees/**/" + name, Repository + "/" + name}
}

// toolchains take from these which program to run instead of themselves, or where
// to send their user's credentials, before they look at anything of the project.
// What installing and building writes is not here: .pnp.cjs, lock files.
var toolchains = []group{
	{Packages, Held, "npm, pnpm", read("https://docs.npmjs.com/cli/configuring-npm/npmrc"), []string{".npmrc"}},
	{Packages, Held, "pnpm", read("https://pnpm.io/pnpmfile"), []string{".pnpmfile.cjs", ".pnpmfile.mjs"}},
	{Packages, Noted, "pnpm: workspaces, and settings as in .npmrc", read("https://pnpm.io/settings"), []string{
		"pnpm-workspace.yaml",
	}},
	{Packages, Held, "yarn 1: which yarn is run", read("https://classic.yarnpkg.com/en/docs/yarnrc"), []string{
		".yarnrc",
	}},
	{Packages, Held, "yarn; editors, from its sdks", read("https://yarnpkg.com/configuration/yarnrc"), []string{
		".yarnrc.yml", ".yarn/releases", ".yarn/plugins", ".yarn/sdks",
	}},
	{Packages, Held, "corepack", read("https://github.com/nodejs/corepack#environment-variables"), []string{
		".corepack.env",
	}},
	{Packages, Noted, "bun: what it runs first", read("https://bun.sh/docs/runtime/bunfig"), []string{"bunfig.toml"}},
	{Packages, Held, "bun, where a home is kept as a project", read("https://bun.sh/docs/runtime/bunfig"), []string{
		".bunfig.toml",
	}},
	{
		Packages, Held, "cargo: which compiler, linker and runner it starts",
		read("https://doc.rust-lang.org/cargo/reference/config.html"),
		[]string{".cargo/config", ".cargo/config.toml"},
	},
	{
		Packages, Held, "cargo: credentials",
		seen("https://doc.rust-lang.org/cargo/reference/config.html#credentials"),
		[]string{".cargo/credentials", ".cargo/credentials.toml"},
	},
	{Packages, Held, "rustup", read("https://rust-lang.github.io/rustup/overrides.html"), []string{
		"rust-toolchain", "rust-toolchain.toml",
	}},
	{Packages, Held, "uv", read("https://docs.astral.sh/uv/concepts/configuration-files/"), []string{"uv.toml"}},
	{Packages, Held, "poetry: where packages come from", read("https://python-poetry.org/docs/configuration/"), []string{
		"poetry.toml",
	}},
	{Packages, Held, "twine: where packages go, and as whom", read("https://twine.readthedocs.io"), []string{".pypirc"}},
	{
		Packages, Held, "uv: which Python is run, also by its path",
		read("https://docs.astral.sh/uv/concepts/python-versions/"),
		[]string{".python-version", ".python-versions"},
	},
	{Packages, Held, "pip in a virtual environment", read("https://pip.pypa.io/en/stable/topics/configuration/"), []string{
		"pip.conf", "pip.ini",
	}},
	{Packages, Held, "PDM", read("https://pdm-project.org/latest/usage/config/"), []string{"pdm.toml"}},
	{Packages, Held, "PDM: which Python it runs", seen("https://pdm-project.org/latest/usage/project/"), []string{
		".pdm.toml", ".pdm-python",
	}},
	{Packages, Held, "pixi", read("https://pixi.sh/latest/reference/pixi_configuration/"), []string{
		".pixi/config.toml",
	}},
	{
		Packages, Noted, "bundler: where gems come from and how they are built",
		read("https://bundler.io/man/bundle-config.1.html"),
		[]string{".bundle/config"},
	},
	{Packages, Held, "Maven", read("https://maven.apache.org/configure.html"), []string{
		".mvn/maven.config", ".mvn/jvm.config", ".mvn/extensions.xml",
	}},
	{
		Packages, Held, "Maven 4: properties of a user for the whole project",
		read("https://maven.apache.org/whatsnewinmaven4.html"),
		[]string{".mvn/maven-user.properties"},
	},
	{
		Packages, Held, "Maven 4: settings of the project, by those who build on it",
		seen("https://github.com/apache/maven"),
		[]string{".mvn/settings.xml"},
	},
	{
		Packages, Held, "Maven 4, and projects that name such files",
		sought("https://maven.apache.org/whatsnewinmaven4.html", "that page, and projects, which have other files there"),
		[]string{".mvn/maven-settings.xml", ".mvn/maven.properties", ".mvn/maven-system.properties"},
	},
	{Packages, Held, "mvnd: with what Java its daemon is run", read("https://github.com/apache/maven-mvnd"), []string{
		".mvn/mvnd.properties",
	}},
	{
		Packages, Noted, "Gradle: which Java runs it and with what, also for editors",
		read("https://docs.gradle.org/current/userguide/build_environment.html"),
		[]string{"gradle.properties"},
	},
	{
		Packages, Noted, "Gradle: the same, for its daemon",
		read("https://docs.gradle.org/current/userguide/gradle_daemon.html"),
		[]string{"gradle/gradle-daemon-jvm.properties"},
	},
	{
		Packages, Held, "sbt: what the Java that runs it loads",
		read("https://github.com/dwijnand/sbt-extras"),
		[]string{".sbtopts", ".jvmopts"},
	},
	{
		Packages, Held, "sbt: commands that it runs as it starts",
		seen("https://www.scala-sbt.org/1.x/docs/Best-Practices.html"),
		[]string{".sbtrc"},
	},
	{
		Packages, Held, "Mill: what the Java that runs it loads, and which Mill is run",
		read("https://github.com/com-lihaoyi/mill"),
		[]string{".mill-jvm-opts", ".mill-opts", ".mill-version", ".config/mill-version"},
	},
	{
		Packages, Noted, "wrappers of Maven and Gradle, which editors start",
		seen("https://docs.gradle.org/current/userguide/gradle_wrapper.html"),
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
	{
		Packages, Noted, "Buck",
		read("https://buck2.build/docs/concepts/buckconfig/"),
		[]string{".buckconfig", ".buckconfig.local", ".buckconfig.d/*"},
	},
	{
		Packages, Held, "Conan: its home, where profiles, hooks and commands are",
		read("https://docs.conan.io/2/reference/config_files/conanrc.html"),
		[]string{".conanrc"},
	},
	{
		Packages, Held, "Swift's package manager: registries and mirrors",
		seen("https://github.com/swiftlang/swift-package-manager"),
		[]string{".swiftpm/configuration"},
	},
	{
		Packages, Held, "NuGet: where packages come from",
		read("https://learn.microsoft.com/nuget/consume-packages/configuring-nuget-behavior"),
		[]string{"nuget.config", ".config/nuget/config", ".nuget/config"},
	},
	{
		Packages, Noted, "Ansible, from the directory that it is called in: which plugins it loads",
		read("https://docs.ansible.com/ansible/latest/reference_appendices/config.html"),
		[]string{"ansible.cfg"},
	},
	{
		Packages, Held, "Ansible, where a home is kept as a project",
		read("https://docs.ansible.com/ansible/latest/reference_appendices/config.html"),
		[]string{".ansible.cfg"},
	},
}
