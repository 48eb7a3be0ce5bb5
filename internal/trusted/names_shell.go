package trusted

// environment is what shells, or programs hooked into them, read on entering a
// directory.
var environment = []group{
	{Shell, Held, "direnv", read("https://direnv.net/man/direnv.1.html"), []string{".envrc", ".config/direnv"}},
	{
		Shell, Held, "direnv, where .envrc reads more of its kind",
		seen("https://direnv.net/man/direnv-stdlib.1.html"),
		[]string{".envrc.*"},
	},
	{
		Shell, Held, "nix-direnv: what it keeps, runs in the shell, and puts before other programs",
		read("https://github.com/nix-community/nix-direnv/blob/master/direnvrc"),
		[]string{".direnv/*.rc", ".direnv/bin"},
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
	{Shell, Held, "vfox", read("https://github.com/version-fox/vfox"), []string{".vfox.toml", "vfox.toml"}},
	{
		Shell, Held, "vfox: links to the programs that a shell finds first",
		seen("https://github.com/lidongbei/sdk"),
		[]string{".vfox"},
	},
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
	{Shell, Held, "zsh-autoenv", read("https://github.com/Tarrasch/zsh-autoenv"), []string{
		".autoenv.zsh", ".autoenv_leave.zsh",
	}},
	{
		Shell, Held, "autoenv, by other names",
		sought("https://github.com/hyperupcall/autoenv", "that page, by which the owner may choose any name"),
		[]string{".autoenv", ".autoenv.leave"},
	},
	{Shell, Held, "smartcd, where a home is kept as a project", read("https://github.com/cxreg/smartcd"), []string{
		".smartcd",
	}},
	{
		Shell, Held, "smartcd, by other names",
		sought("https://github.com/cxreg/smartcd", "that page, by which its scripts are in the home"),
		[]string{".bash_enter", ".bash_leave"},
	},
	{Shell, Held, "RVM", read("https://rvm.io/workflow/projects"), []string{".rvmrc", ".versions.conf"}},
	{
		Shell, Held, "rbenv-vars: the environment of every Ruby",
		read("https://github.com/rbenv/rbenv-vars"),
		[]string{".rbenv-vars"},
	},
	{
		Shell, Noted, "version managers: which of the installed is run",
		read("https://mise.jdx.dev/configuration.html#idiomatic-version-files"),
		[]string{
			".ruby-version", ".ruby-gemset", ".node-version", ".nvmrc", ".java-version", ".sdkmanrc",
			".go-version", ".crystal-version", ".exenv-version", ".terraform-version", ".packer-version",
		},
	},
	{Shell, Held, "shadowenv", read("https://github.com/Shopify/shadowenv"), []string{".shadowenv.d"}},
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
		Shell, Noted, "nix: through nix-direnv",
		read("https://github.com/nix-community/nix-direnv#tracked-files"),
		[]string{"flake.nix", "default.nix", "devshell.toml"},
	},
	{
		Shell, Noted, "devbox: through direnv",
		read("https://www.jetify.com/docs/devbox/ide_configuration/direnv/"),
		[]string{"devbox.json"},
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
		read("https://git-scm.com/docs/git-config#FILES"),
		[]string{".config/git"},
	},
	{
		Shell, Held, "husky, where a home is kept as a project",
		read("https://typicode.github.io/husky/how-to.html"),
		[]string{".config/husky"},
	},
	{
		Shell, Held, "bash, where a home is kept as a project",
		read("https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html"),
		[]string{".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile"},
	},
	{
		Shell, Held, "bash, where a start-up file calls it, as those it comes with do",
		seen("https://www.gnu.org/software/bash/"),
		[]string{".bash_aliases"},
	},
	{
		Shell, Held, "zsh, where a home is kept as a project",
		read("https://zsh.sourceforge.io/Doc/Release/Files.html"),
		[]string{".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout"},
	},
	{
		Shell, Held, "fish, where a home is kept as a project",
		read("https://fishshell.com/docs/current/cmds/source.html"),
		[]string{".config/fish"},
	},
	{
		Shell, Held, "csh, tcsh, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/tcsh/tcsh.1.en.html"),
		[]string{".cshrc", ".tcshrc", ".login", ".logout"},
	},
	{
		Shell, Held, "mksh, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/mksh/mksh.1.en.html"),
		[]string{".mkshrc"},
	},
	{
		Shell, Held, "X sessions, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/xinit/xinit.1.en.html"),
		[]string{".xinitrc", ".xserverrc"},
	},
	{
		Shell, Held, "X sessions, by Debian, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/x11-common/Xsession.5.en.html"),
		[]string{".xsession"},
	},
	{
		Shell, Held, "screen, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/screen/screen.1.en.html"),
		[]string{".screenrc"},
	},
	{
		Shell, Held, "Emacs, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/emacs-common/emacs.1.en.html"),
		[]string{".emacs"},
	},
	{
		Shell, Held, "Emacs, the same as a directory",
		seen("https://www.gnu.org/software/emacs/manual/"),
		[]string{".emacs.d"},
	},
	{
		Shell, Held, "lesspipe, by Debian, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/less/lesspipe.1.en.html"),
		[]string{".lessfilter"},
	},
	{
		Shell, Held, "psql, where a home is kept as a project",
		read("https://www.postgresql.org/docs/current/app-psql.html"),
		[]string{".psqlrc"},
	},
	{
		Shell, Held, "sqlite3, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/sqlite3/sqlite3.1.en.html"),
		[]string{".sqliterc"},
	},
	{
		Shell, Held, "curl: where it sends what, where a home is kept as a project",
		read("https://curl.se/docs/manpage.html#-K"),
		[]string{".curlrc"},
	},
	{
		Shell, Held, "wget: the same, and what it asks for passwords",
		read("https://manpages.debian.org/bookworm/wget/wget.1.en.html"),
		[]string{".wgetrc"},
	},
	{
		Shell, Held, "lftp, where a home is kept as a project",
		read("https://manpages.debian.org/bookworm/lftp/lftp.1.en.html"),
		[]string{".lftprc"},
	},
	{
		Shell, Held, "readline in every program, where a home is kept as a project",
		read("https://tiswww.case.edu/php/chet/readline/rluserman.html"),
		[]string{".inputrc"},
	},
	{
		Shell, Held, "the desktop, where a home is kept as a project",
		read("https://specifications.freedesktop.org/autostart/latest/"),
		[]string{".config/autostart"},
	},
	{
		Shell, Held, "systemd, where a home is kept as a project",
		read("https://www.freedesktop.org/software/systemd/man/latest/systemd.unit.html"),
		[]string{".config/systemd", ".config/environment.d"},
	},
	{
		Shell, Held, "tmux, where a home is kept as a project",
		read("https://man.openbsd.org/tmux.1"),
		[]string{".tmux.conf", ".config/tmux"},
	},
	{
		Shell, Held, "gdb, in the directory that it is started in or where a home is kept as a project",
		read("https://sourceware.org/gdb/current/onlinedocs/gdb.html/gdbinit-man.html"),
		[]string{".gdbinit", ".config/gdb"},
	},
	{
		Shell, Held, "lldb, in the directory that it is started in",
		read("https://lldb.llvm.org/man/lldb.html"),
		[]string{".lldbinit"},
	},
}
