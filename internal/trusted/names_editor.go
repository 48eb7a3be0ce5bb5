package trusted

// editors run tasks, terminals and language servers by these.
var editors = []group{
	{
		Editor, Held, "VS Code: tasks, debuggers and settings that name programs",
		read("https://code.visualstudio.com/docs/editing/workspaces/workspace-trust"),
		[]string{".vscode"},
	},
	{
		Editor, Held, "VS Code: the same, for several directories",
		seen("https://code.visualstudio.com/docs/editing/workspaces/multi-root-workspaces"),
		[]string{"*.code-workspace"},
	},
	{
		Editor, Held, "Theia: the same",
		read("https://github.com/eclipse-theia/theia/tree/master/packages/preferences"),
		[]string{".theia"},
	},
	{Editor, Held, "development containers", seen("https://containers.dev/implementors/spec/"), []string{
		".devcontainer", ".devcontainer.json",
	}},
	{
		Editor, Held, "Gitpod",
		seen("https://www.gitpod.io/docs/references/gitpod-yml"),
		[]string{".gitpod.yml", ".gitpod.dockerfile"},
	},
	{
		Editor, Held, "odo, Che, GitLab: development environments by devfile",
		seen("https://devfile.io"),
		[]string{"devfile.yaml", ".devfile.yaml", ".devfile"},
	},
	{
		Editor, Held, "JetBrains: settings, and what runs how",
		read("https://www.jetbrains.com/help/idea/2017.1/managing-projects-under-version-control.html"),
		[]string{".idea", "*.iws", "*.ipr"},
	},
	{
		Editor, Held, "JetBrains: what runs how, kept beside the settings",
		seen("https://www.jetbrains.com/help/idea/run-debug-configuration.html"),
		[]string{".run", ".fleet"},
	},
	{
		Editor, Held, "Visual Studio",
		read("https://learn.microsoft.com/visualstudio/ide/customize-build-and-debug-tasks-in-visual-studio"),
		[]string{".vs", "tasks.vs.json", "launch.vs.json"},
	},
	{Editor, Held, "Zed", read("https://zed.dev/docs/tasks"), []string{".zed"}},
	{Editor, Held, "Helix", seen("https://docs.helix-editor.com/languages.html"), []string{".helix"}},
	{
		Editor, Held, "Sublime Text: build systems and settings",
		sought("https://www.sublimetext.com/docs/projects.html", "stored documentation and projects, which only ignore it"),
		[]string{"*.sublime-project", "*.sublime-workspace"},
	},
	{
		Editor, Asked, "Kate, where such a file is opened: build targets. CMake writes it",
		read("https://cmake.org/cmake/help/latest/generator/Kate.html"),
		[]string{"*.kateproject"},
	},
	{
		Editor, Held, "Kate, which looks for it upwards",
		read("https://invent.kde.org/utilities/kate"),
		[]string{".kateproject"},
	},
	{
		Editor, Held, "Kate: beside it",
		sought("https://docs.kde.org/stable5/en/kate/kate/", "Kate's own text, which has the plain name"),
		[]string{".kateproject.*"},
	},
	{
		Editor, Held, "Lite XL, which runs it as it opens the directory",
		read("https://github.com/lite-xl/lite-xl"),
		[]string{".lite_project.lua"},
	},
	{
		Editor, Held, "Firebase Studio, CodeSandbox, Replit: machines that are set up from the project",
		seen("https://firebase.google.com/docs/studio/customize-workspace"),
		[]string{".idx", ".codesandbox", ".replit", "replit.nix"},
	},
	{
		Editor, Held, "Gitpod: a directory of the same",
		sought("https://www.gitpod.io/docs", "projects, which have the file"),
		[]string{".gitpod"},
	},
	{
		Editor, Held, "StackBlitz: what it starts",
		seen("https://developer.stackblitz.com/platform/webcontainers/project-config"),
		[]string{".stackblitzrc"},
	},
	{Editor, Held, "Nova", seen("https://help.nova.app"), []string{".nova"}},
	{
		Editor, Held, "Eclipse: builders that are programs",
		seen("https://help.eclipse.org"),
		[]string{".project", ".externalToolBuilders"},
	},
	{Editor, Held, "Vim, Neovim", seen("https://neovim.io/doc/user/options.html#'exrc'"), []string{
		".vimrc", ".exrc", ".gvimrc", ".nvim.lua", ".nvimrc",
	}},
	{
		Editor, Held, "Vim, where its owner has it read so",
		seen("https://github.com/christoomey/vim-trusted-local"),
		[]string{".vimrc.local"},
	},
	{
		Editor, Held, "Vim: the same, by other spellings or where a home is kept as a project",
		read("https://vimhelp.org/starting.txt.html#vimrc"),
		[]string{"_vimrc", "_exrc", ".vim"},
	},
	{Editor, Held, "localvimrc", read("https://github.com/embear/vim-localvimrc"), []string{".lvimrc"}},
	{
		Editor, Held, "vimspector: which debug adapters it starts",
		read("https://puremourning.github.io/vimspector/configuration.html"),
		[]string{".vimspector.json", ".gadgets.json"},
	},
	{Editor, Held, "neoconf.nvim", read("https://github.com/folke/neoconf.nvim"), []string{".neoconf.json"}},
	{
		Editor, Held, "nlsp-settings.nvim",
		read("https://github.com/tamago324/nlsp-settings.nvim"),
		[]string{".nlsp-settings"},
	},
	{
		Editor, Held, "lazy.nvim: plugins of the project",
		read("https://github.com/folke/lazy.nvim/blob/main/lua/lazy/core/config.lua"),
		[]string{".lazy.lua"},
	},
	{
		Editor, Held, "Vim, where its owner has it read so",
		seen("https://github.com/thinca/vim-localrc"),
		[]string{".local.vimrc"},
	},
	{
		Editor, Held, "YouCompleteMe, which runs it as Python",
		seen("https://github.com/ycm-core/YouCompleteMe"),
		[]string{".ycm_extra_conf.py"},
	},
	{
		Editor, Held, "Emacs",
		read("https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html"),
		[]string{".dir-locals.el", ".dir-locals-2.el"},
	},
	{Editor, Held, "Kakoune, where its owner has it read so", seen("https://github.com/schemar/kak-jsts"), []string{
		".kakrc", ".kakrc.local",
	}},
	{
		Editor, Held, "clangd: which compiler it asks, and which server it tells",
		read("https://clangd.llvm.org/config"),
		[]string{".clangd"},
	},
	{Editor, Held, "ccls: which compiler it asks", read("https://github.com/MaskRay/ccls"), []string{".ccls"}},
	{
		Editor, Held, "sourcekit-lsp: what it passes to compilers and clangd",
		read("https://github.com/swiftlang/sourcekit-lsp/blob/main/Documentation/Configuration%20File.md"),
		[]string{".sourcekit-lsp"},
	},
	{
		Editor, Held, "lua-language-server: which plugin it runs",
		read("https://luals.github.io/wiki/configuration/"),
		[]string{".luarc.json"},
	},
	{
		Editor, Held, "lua-language-server, rust-analyzer, coc.nvim, sourcekit-lsp: plugins and commands of theirs",
		seen("https://luals.github.io/wiki/configuration/"),
		[]string{
			".luarc.jsonc", "rust-analyzer.toml", ".rust-analyzer.toml", "coc-settings.json",
			"buildServer.json",
		},
	},
	{
		Editor, Held, "rust-analyzer, by another ending",
		sought("https://rust-analyzer.github.io/book/configuration.html", "projects, which have the other ending"),
		[]string{"rust-analyzer.json"},
	},
	{
		Editor, Held, "haskell-language-server: which program tells it the flags",
		read("https://github.com/haskell/hie-bios"),
		[]string{"hie.yaml"},
	},
	{
		Editor, Held, "clojure-lsp: which command tells it the classpath",
		read("https://clojure-lsp.io/settings/"),
		[]string{".lsp/config.edn"},
	},
	{
		Editor, Held, "OmniSharp: which analyzers it loads",
		read("https://github.com/OmniSharp/omnisharp-roslyn/wiki/Configuration-Options"),
		[]string{"omnisharp.json"},
	},
	{
		Editor, Noted, "Dart's analysis server: which plugins it runs",
		read("https://dart.dev/tools/analyzer-plugins"),
		[]string{"analysis_options.yaml"},
	},
	{
		Editor, Asked, "editors that build by the Build Server Protocol; sbt writes it anew",
		read("https://build-server-protocol.github.io/docs/overview/server-discovery"),
		[]string{".bsp/"},
	},
	{
		Editor, Noted, "pylint, which editors start: init-hook",
		seen("https://pylint.readthedocs.io/en/stable/user_guide/usage/run.html"),
		[]string{".pylintrc", "pylintrc"},
	},
	{
		Editor, Held, "R, from the directory that it is started in",
		read("https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html"),
		[]string{".Rprofile", ".Renviron"},
	},
	{
		Editor, Held, "R, where its owner uses the package startup",
		read("https://github.com/HenrikBengtsson/startup"),
		[]string{".Rprofile.d", ".Renviron.d"},
	},
	{
		Editor, Noted, "R: the last session, with functions that it calls; R writes it as it ends",
		read("https://cran.r-project.org/doc/FAQ/R-FAQ.html"),
		[]string{".RData"},
	},
	{
		Editor, Held, "Octave, from the directory that it is started in",
		read("https://docs.octave.org/latest/Startup-Files.html"),
		[]string{".octaverc"},
	},
	{
		Editor, Noted, "Octave, MATLAB: the same; ordinary work has files of the name",
		read("https://docs.octave.org/latest/Startup-Files.html"),
		[]string{"startup.m"},
	},
	{
		Editor, Held, "pdb, from the directory that it is started in",
		read("https://docs.python.org/3/library/pdb.html#debugger-commands"),
		[]string{".pdbrc"},
	},
	{
		Editor, Held, "pry, from the directory that it is started in",
		read("https://github.com/pry/pry"),
		[]string{".pryrc"},
	},
	{
		Editor, Held, "iex, from the directory that it is started in",
		read("https://hexdocs.pm/iex/IEx.html#module-the-iex-exs-file"),
		[]string{".iex.exs"},
	},
	{
		Editor, Held, "byebug, from the directory that it is started in",
		read("https://github.com/deivid-rodriguez/byebug/blob/main/GUIDE.md"),
		[]string{".byebugrc"},
	},
	{
		Editor, Held, "ghci, from the directory that it is started in",
		read("https://downloads.haskell.org/ghc/latest/docs/users_guide/ghci.html"),
		[]string{".ghci"},
	},
	{
		Editor, Held, "ocaml, utop, erl, from the directory that it is started in",
		seen("https://ocaml.org/manual/toplevel.html"),
		[]string{".ocamlinit", ".erlang"},
	},
	{
		Editor, Held, "Jupyter, from the directory that it is started in",
		sought("https://jupyter-server.readthedocs.io/en/latest/users/", "projects, which keep it in a home"),
		[]string{"jupyter_*config.py", "jupyter_*config.json"},
	},
	{Editor, Held, "irb", read("https://ruby.github.io/irb/Configurations_md.html"), []string{
		".irbrc", "irb.rc", "_irbrc", "$irbrc",
	}},
	{
		Editor, Held, "jdb, from the directory that it is started in",
		read("https://docs.oracle.com/en/java/javase/21/docs/specs/man/jdb.html"),
		[]string{".jdbrc", "jdb.ini"},
	},
	{
		Editor, Held, "Perl's debugger, from the directory that it is started in",
		read("https://perldoc.perl.org/perldebug"),
		[]string{".perldb"},
	},
	{
		Editor, Held, "IPython before 8.0.1, from the directory that it is started in",
		read("https://github.com/advisories/GHSA-pq7m-3gw7-gq5x"),
		[]string{"profile_default"},
	},
	{Editor, Noted, "editors", read("https://editorconfig.org"), []string{".editorconfig"}},
}

// hooks are what hook managers install from and run.
var hooks = []group{
	{Hooks, Held, "husky", read("https://typicode.github.io/husky/how-to.html"), []string{".husky"}},
	{Hooks, Held, "husky before 5", read("https://github.com/typicode/husky/tree/v4.3.8"), []string{
		".huskyrc", ".huskyrc.js", ".huskyrc.json", ".huskyrc.yml", ".huskyrc.yaml", "husky.config.js",
	}},
	{
		Hooks, Held, "git, where core.hooksPath says so",
		read("https://git-scm.com/docs/git-config#Documentation/git-config.txt-corehooksPath"),
		[]string{".githooks", ".git-hooks"},
	},
	{Hooks, Held, "pre-commit, prek", read("https://prek.j178.dev/configuration/"), []string{
		".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml",
	}},
	{Hooks, Held, "pre-commit", read("https://pre-commit.com/#new-hooks"), []string{".pre-commit-hooks.yaml"}},
	{Hooks, Held, "overcommit", read("https://github.com/sds/overcommit"), []string{
		".overcommit.yml", ".local-overcommit.yml",
	}},
	{Hooks, Held, "lefthook", read("https://lefthook.dev/configuration"), append(
		endings([]string{"yml", "yaml", "toml", "json", "jsonc"},
			"lefthook", "lefthook-local", ".lefthook", ".lefthook-local", ".config/lefthook", ".config/lefthook-local"),
		".lefthook", ".lefthook-local")},
	{Hooks, Held, "simple-git-hooks", read("https://github.com/toplenboren/simple-git-hooks"), endings(
		[]string{"js", "cjs", "mjs", "ts", "json", "yml", "yaml"}, ".simple-git-hooks", "simple-git-hooks",
	)},
	{Hooks, Held, "lint-staged", read("https://github.com/lint-staged/lint-staged#configuration"), append(
		endings([]string{"js", "cjs", "mjs", "ts", "cts", "mts", "json", "yml", "yaml"}, ".lintstagedrc", "lint-staged.config"),
		".lintstagedrc")},
	{Hooks, Held, "commitlint", read("https://commitlint.js.org/reference/configuration.html"), append(
		endings([]string{"js", "cjs", "mjs", "ts", "cts", "mts", "json", "yml", "yaml"}, ".commitlintrc", "commitlint.config"),
		".commitlintrc")},
	{
		Hooks, Held, "Trunk: hooks, and programs that its shell hook puts first",
		seen("https://docs.trunk.io/cli/getting-started/actions/git-hooks"),
		[]string{".trunk"},
	},
	{
		Hooks, Held, "rusty-hook",
		read("https://github.com/swellaby/rusty-hook"),
		[]string{".rusty-hook.toml", "rusty-hook.toml"},
	},
	{Hooks, Held, "hk", read("https://hk.jdx.dev/configuration.html"), []string{
		"hk.pkl", "hk.local.pkl", ".config/hk.pkl", ".config/hk.local.pkl",
	}},
	{
		Hooks, Held, "gitlint: where its rules, in Python, are",
		read("https://jorisroovers.com/gitlint/latest/configuration/general_options/"),
		[]string{".gitlint"},
	},
	{
		Hooks, Held, "captainhook",
		read("https://github.com/captainhookphp/captainhook"),
		[]string{"captainhook.json"},
	},
	{Hooks, Held, "cargo-husky", read("https://github.com/rhysd/cargo-husky"), []string{".cargo-husky"}},
	{
		Hooks, Held, "grumphp",
		seen("https://github.com/phpro/grumphp"),
		[]string{"grumphp.yml", "grumphp.yml.dist"},
	},
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
