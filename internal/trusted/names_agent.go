package trusted

// agents read their permissions, servers, hooks and commands from these.
var agents = []group{
	{Agent, Held, "Claude Code", read("https://code.claude.com/docs/en/claude-directory"), []string{
		".claude", ".claude-plugin", ".claude.json",
	}},
	{Agent, Held, "MCP clients", read("https://code.claude.com/docs/en/claude-directory"), []string{".mcp.json"}},
	{
		Agent, Held, "Cursor, Windsurf, Trae, Kiro, Codex, Gemini, Qwen, Factory, Pi, Vibe",
		seen("https://github.com/intellectronica/ruler"),
		[]string{".cursor", ".windsurf", ".trae", ".kiro", ".codex", ".gemini", ".qwen", ".factory", ".pi", ".vibe"},
	},
	{
		Agent, Held, "Cline, Roo, Kilo, Augment, Junie, Amazon Q, OpenHands, Firebender, JetBrains",
		seen("https://github.com/intellectronica/ruler"),
		[]string{
			".clinerules", ".roo", ".kilocode", ".augment", ".junie", ".amazonq", ".openhands", "firebender.json",
			".aiassistant",
		},
	},
	{
		Agent, Held, "Crush, which runs crushrc as it starts",
		read("https://github.com/charmbracelet/crush/blob/main/docs/config/README.md"),
		[]string{".crushrc", "crushrc", ".crush.json", "crush.json"},
	},
	{Agent, Held, "opencode, also plugins of its terminal", read("https://opencode.ai/docs/config/"), []string{
		".opencode", "opencode.json", "opencode.jsonc", "tui.json", "tui.jsonc",
	}},
	{Agent, Held, "Amp", seen("https://ampcode.com/manual"), []string{".amp"}},
	{Agent, Held, "ECA", read("https://eca.dev/configuration/"), []string{".eca"}},
	{Agent, Held, "mcphub.nvim", seen("https://ravitemer.github.io/mcphub.nvim/"), []string{".mcphub"}},
	{Agent, Held, "Codex: plugins", seen("https://github.com/stbenjam/skillsaw"), []string{".codex-plugin"}},
	{
		Agent, Held, "agents that rulesync writes settings, servers or hooks of",
		seen("https://github.com/dyoshikawa/rulesync"),
		[]string{
			".cline", ".roomodes", ".kilo", ".goose", ".grok", ".devin", ".warp", ".rovodev", ".codebuddy",
			".deepagents", ".kimi-code", ".hermes", ".reasonix", ".takt", ".zcode", ".ai/mcp", ".config/devin",
			".github/mcp.json", ".copilot",
		},
	},
	{
		Agent, Held, "Qoder: settings and what it is told to do",
		read("https://docs.qoder.com/cli"),
		[]string{".qoder"},
	},
	{Agent, Held, "Crush: skills", read("https://github.com/charmbracelet/crush"), []string{".crush"}},
	{
		Agent, Held, "agents with a directory or a file of settings, servers and modes",
		seen("https://github.com/Kilo-Org/kilocode"),
		[]string{
			".continue", ".continuerc.json", ".kilocodemodes", ".serena", ".iflow", ".kimi", ".tabnine",
			".zencoder", ".jules", ".codeium", ".antigravity",
		},
	},
	{Agent, Held, "Kilo", seen("https://kilocode.ai/docs"), []string{"kilo.json", "kilo.jsonc"}},
	{
		Agent, Held, "Qodo",
		sought("https://docs.qodo.ai", "the package of Qodo's command, which does not name it"),
		[]string{".qodo"},
	},
	{Agent, Held, "Copilot", read("https://docs.github.com/en/copilot/reference/customization-cheat-sheet"), []string{
		".github/hooks", ".github/agents", ".github/skills",
	}},
	{
		Agent, Held, "Copilot CLI: which language servers it starts",
		read("https://github.com/github/copilot-cli"),
		[]string{".github/lsp.json"},
	},
	{
		Agent, Held, "Copilot: further settings, and extensions that are programs",
		seen("https://docs.github.com/copilot/reference/hooks-configuration"),
		[]string{".github/chatmodes", ".github/copilot", ".github/extensions"},
	},
	{Agent, Held, "aider", read("https://aider.chat/docs/config/aider_conf.html"), []string{
		".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json",
	}},
	{
		Agent, Held, "agents in general: skills, commands, settings",
		seen("https://github.com/dyoshikawa/rulesync"),
		[]string{".agents", ".agent"},
	},
}

// instructions are words that agents follow. They start no program, and keeping
// them up to date is work that agents are given, so a run may write them; but the
// next agent, perhaps one outside any sandbox, takes them for its owner's words.
// A tool's write is asked about, and a run's is in its outcome.
var instructions = []group{
	{Agent, Noted, "agents", seen("https://github.com/intellectronica/ruler"), []string{
		"AGENTS.md", "CLAUDE.md", "CRUSH.md", "WARP.md", ".goosehints", "copilot-instructions.md",
	}},
	{Agent, Noted, "agents", seen("https://github.com/dyoshikawa/rulesync"), []string{
		"AGENTS.override.md", "AGENTS.local.md", "CLAUDE.local.md", "QWEN.md", "QWEN.local.md", "CODEBUDDY.md",
		"CODEBUDDY.local.md", "REASONIX.md", ".hermes.md", ".augment-guidelines", "replit.md", ".rules",
	}},
	{Agent, Noted, "Gemini CLI", read("https://geminicli.com/docs/cli/gemini-md/"), []string{"GEMINI.md"}},
	{
		Agent, Noted, "Cursor, Windsurf, Roo, aider, Continue, Kilo, Blackbox, Copilot, Kimi, Antigravity",
		seen("https://agents.md"),
		[]string{
			".cursorrules", ".windsurfrules", ".roorules", "CONVENTIONS.md", ".continuerules",
			".kilocoderules", ".blackboxrules", "COPILOT.md", "KIMI.md", ".antigravity.md", "AGENT.md",
		},
	},
	{
		Agent, Noted, "opencode, before it read others",
		seen("https://opencode.ai/docs/rules/"),
		[]string{"OPENCODE.md"},
	},
	{Agent, Noted, "agents: what they may not read", seen("https://github.com/dyoshikawa/rulesync"), []string{
		".aiignore", ".geminiignore", ".augmentignore", ".clineignore", ".cursorignore", ".kilocodeignore",
		".kiroignore", ".qwenignore", ".rooignore", ".devinignore", ".vibeignore", ".gooseignore", ".codexignore",
		".warpindexingignore",
	}},
	{
		Agent, Noted, "Crush: what it may not read",
		read("https://github.com/charmbracelet/crush"),
		[]string{".crushignore"},
	},
	{
		Agent, Noted, "Continue: what it may not read",
		seen("https://docs.continue.dev"),
		[]string{".continueignore"},
	},
	{Agent, Noted, "aider: what it may not read", read("https://aider.chat/docs/config/options.html"), []string{
		".aiderignore",
	}},
}

// rest are credentials, and Palyra's own.
var rest = []group{
	{Own, Held, "Palyra", read("docs/formats.md"), []string{".palyra"}},
	{
		Credentials, Held, "ssh: which commands it runs on the way to a host",
		read("https://man.openbsd.org/ssh_config"),
		[]string{".ssh"},
	},
	{
		Credentials, Held, "gpg",
		read("https://www.gnupg.org/documentation/manuals/gnupg/GPG-Configuration.html"),
		[]string{".gnupg"},
	},
	{
		Credentials, Held, "kubectl and its kin: programs that give credentials",
		read("https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins"),
		[]string{".kube"},
	},
	{
		Credentials, Held, "AWS: the same",
		seen("https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-sourcing-external.html"),
		[]string{".aws"},
	},
	{
		Credentials, Held, "docker: the same, and the programs that are its commands",
		read("https://docs.docker.com/reference/cli/docker/#docker-cli-configuration-file-configjson-properties"),
		[]string{".docker/config.json", ".docker/cli-plugins"},
	},
	{
		Credentials, Held, "curl, ftp: macros that run at a connection",
		read("https://curl.se/docs/manpage.html#-n"),
		[]string{".netrc", "_netrc"},
	},
	{
		Credentials, Held, "git",
		read("https://git-scm.com/docs/git-credential-store#FILES"),
		[]string{".git-credentials"},
	},
}
