package process

// rule says how to find, in a program's arguments, the files that it interprets.
// Letters are short options, which may stand together in one argument.
type rule struct {
	names    string          // of the program, without version: "python awk"
	live     bool            // it may take its instructions from stdin
	plus     bool            // options may begin with "+" as well
	inline   string          // options that bring the instructions themselves: no script operand
	file     string          // options whose value is a file of instructions
	dir      string          // options whose value is the directory to work in
	value    string          // options with another value, attached or next
	next     string          // options with a value that is always the next argument
	attached string          // options whose value can only be attached
	flags    string          // options without a value; only for programs that are followed, where all must be known
	clear    string          // options that empty the environment
	unset    string          // options whose value is a variable to take out of it
	split    string          // options whose value is split into further arguments
	long     map[string]kind // long options with a value
	switches string          // long options without one, or whose value can only be attached
	single   bool            // long options may have one dash
	verb     string          // the operands count only after this one
	script   bool            // the first operand is a file of instructions
	suffix   string          // all leading operands of this ending are
	tries    []string        // endings that are tried when the operand is not a file
	within   []string        // names that count when the operand is a directory
	defaults []string        // used when no file is named: the first that exists
	up       bool            // the directories above, up to the workspace, are searched for the defaults
	wraps    bool            // an operand is a program to run
	skip     int             // operands before that one
	number   bool            // what is skipped is a number, and may be left out
	assigns  bool            // NAME=VALUE before the program sets a variable
	follow   bool            // the program is bound and its own rule counts
	applets  bool            // many programs in one file: the name it is called by says which, or else the operand
}

// kind is what an option's value is.
type kind byte

const (
	isValue kind = iota
	isFile
	isDir
	isInline
	isProgram
	isFlag  // there is no value
	isClear // there is no value, and the environment is emptied
	isUnset // a variable's name
	isSplit // further arguments
)

// rules is the table. The source of each row is the program's own manual.
var rules = []rule{
	// POSIX sh(1); bash(1): -o and -O take the next argument wherever they stand.
	{
		names: "sh bash dash ash zsh ksh mksh rbash", live: true, plus: true, inline: "cs", next: "oO", script: true,
		long: map[string]kind{"rcfile": isFile, "init-file": isFile}, single: true,
		switches: "debug debugger dump-po-strings dump-strings help login noediting noprofile norc posix pretty-print protected restricted verbose version",
	},
	// fish(1), tcsh(1).
	{
		names: "fish csh tcsh", live: true, inline: "c", value: "dCo", script: true,
		long:     map[string]kind{"command": isInline, "init-command": isValue, "debug": isValue, "debug-output": isValue, "features": isValue, "profile": isValue, "profile-startup": isValue},
		switches: "help interactive login no-config no-execute print-debug-categories print-rusage-self private version",
	},
	// python(1): -c and -m end the options.
	{
		names: "python pypy pythonw", live: true, inline: "cm", value: "WXQ", script: true, within: []string{"__main__.py"},
		long: map[string]kind{"check-hash-based-pycs": isValue}, switches: "help help-all help-env help-xoptions version",
	},
	// node(1); modules(7): the endings that are tried, and what a directory stands for.
	{
		names: "node nodejs", live: true, inline: "ep", file: "r", value: "C", script: true,
		tries: []string{".js", ".json", ".node"}, within: []string{"package.json", "index.js"},
		long: map[string]kind{
			"eval": isInline, "print": isInline, "require": isFile, "import": isFile, "loader": isFile, "experimental-loader": isFile,
			"conditions": isValue, "input-type": isValue, "env-file": isFile, "env-file-if-exists": isFile, "run": isInline,
			"experimental-config-file": isFile, "openssl-config": isFile, "stack-trace-limit": isValue, "title": isValue, "unhandled-rejections": isValue, "dns-result-order": isValue,
		},
		switches: "check enable-source-maps expose-gc experimental-strip-types experimental-vm-modules help inspect inspect-brk interactive no-deprecation no-warnings " +
			"preserve-symlinks test throw-deprecation trace-deprecation trace-exit trace-uncaught trace-warnings use-strict v8-options version watch",
	},
	// deno-run(1), bun run.
	{
		names: "deno", live: true, verb: "run", value: "c", script: true, long: map[string]kind{"config": isFile, "import-map": isFile, "lock": isFile, "cert": isValue, "location": isValue, "seed": isValue},
		switches: "allow-all allow-env allow-ffi allow-hrtime allow-net allow-read allow-run allow-sys allow-write cached-only check help no-check no-config no-lock no-npm no-prompt no-remote node-modules-dir quiet reload unstable version watch",
	},
	{
		names: "bun", live: true, verb: "run", inline: "e", script: true, defaults: []string{"package.json"}, up: true,
		long: map[string]kind{"cwd": isDir, "preload": isFile, "config": isFile, "eval": isInline, "print": isInline, "env-file": isFile}, switches: "bun help hot if-present inspect silent smol version watch",
	},
	{names: "ts-node tsx", live: true, inline: "ep", file: "r", value: "P", script: true, tries: []string{".ts", ".js"}},
	// perlrun(1): the values of most options can only be attached; those of -0 and -l are digits.
	{names: "perl", live: true, inline: "eE", value: "I", attached: "CDFMVdimx", script: true},
	// ruby(1).
	{names: "ruby jruby", live: true, inline: "e", dir: "C", value: "IrE", attached: "FKTWix", script: true},
	// php(1), lua(1), tclsh(1), Rscript(1), guile(1).
	{names: "php", live: true, inline: "rBRE", file: "fF", value: "cdSt", script: true},
	{names: "lua luajit", live: true, value: "el", script: true},
	{names: "tclsh wish expect", live: true, inline: "c", file: "f", script: true},
	{names: "Rscript", live: true, inline: "e", script: true},
	{names: "R", live: true, switches: "slave no-save save vanilla quiet silent no-echo", inline: "e", file: "f", long: map[string]kind{"file": isFile}},
	{names: "julia", live: true, inline: "eE", value: "pJCt", file: "L", script: true},
	{names: "guile", live: true, inline: "ce", file: "ls", script: true},
	// java(1): -jar, and single-file source programs.
	{
		names: "java", live: true, suffix: ".java", single: true,
		long: map[string]kind{
			"jar": isFile, "cp": isValue, "classpath": isValue, "class-path": isValue, "p": isValue, "module-path": isValue, "upgrade-module-path": isValue, "add-modules": isValue,
			"add-opens": isValue, "add-exports": isValue, "add-reads": isValue, "patch-module": isValue, "source": isValue, "m": isValue, "module": isValue, "limit-modules": isValue,
		},
		switches: "enable-preview enable-native-access dry-run help list-modules show-version validate-modules version",
	},
	// awk(1), gawk(1): -f may be repeated; without it the first operand is the program text.
	{names: "awk gawk mawk nawk original-awk", live: true, file: "fEil", value: "vF", inline: "e", long: map[string]kind{"file": isFile, "exec": isFile, "include": isFile, "load": isFile, "source": isInline, "assign": isValue, "field-separator": isValue}},
	// sed(1).
	{
		names: "sed gsed", live: true, file: "f", inline: "e", value: "l", attached: "i", long: map[string]kind{"file": isFile, "expression": isInline, "line-length": isValue},
		switches: "binary debug follow-symlinks help in-place null-data zero-terminated posix quiet regexp-extended sandbox separate silent unbuffered version",
	},
	// jq(1): -f takes the program from a file.
	{names: "jq", file: "f", long: map[string]kind{"from-file": isFile}},
	// make(1): GNUmakefile, makefile and Makefile, in this order.
	{
		names: "make gmake", live: true, file: "f", dir: "C", value: "IoWE", attached: "jlO", defaults: []string{"GNUmakefile", "makefile", "Makefile"},
		long: map[string]kind{
			"file": isFile, "makefile": isFile, "directory": isDir, "include-dir": isValue, "old-file": isValue, "assume-old": isValue,
			"what-if": isValue, "new-file": isValue, "assume-new": isValue, "eval": isValue,
		},
		switches: "always-make check-symlink-times debug dry-run environment-overrides help ignore-errors jobs just-print jobserver-auth jobserver-style keep-going load-average max-load " +
			"no-builtin-rules no-builtin-variables no-keep-going no-print-directory no-silent output-sync print-data-base print-directory question quiet recon shuffle silent stop touch trace " +
			"version warn-undefined-variables",
	},
	// ninja(1), just(1), rake(1).
	{names: "ninja samu", file: "f", dir: "C", value: "jkldtw", defaults: []string{"build.ninja"}},
	{names: "just", file: "f", dir: "d", defaults: []string{"justfile", "Justfile", ".justfile"}, up: true, long: map[string]kind{"justfile": isFile, "working-directory": isDir}},
	{names: "rake", file: "f", value: "IrRC", defaults: []string{"rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb"}, up: true, long: map[string]kind{"rakefile": isFile}},
	// package-json(5), npm-run-script(1): scripts run from the nearest package.json, also
	// those that go with install.
	{names: "npm npx pnpm pnpx yarn", dir: "C", defaults: []string{"package.json"}, up: true, long: map[string]kind{"prefix": isDir, "dir": isDir, "cwd": isDir}},
	// go help run.
	{
		names: "go", verb: "run", suffix: ".go", single: true,
		long: map[string]kind{
			"C": isDir, "exec": isProgram, "toolexec": isProgram, "overlay": isFile, "modfile": isFile, "tags": isValue, "mod": isValue, "ldflags": isValue, "gcflags": isValue, "asmflags": isValue,
			"gccgoflags": isValue, "p": isValue, "buildmode": isValue, "compiler": isValue, "covermode": isValue, "coverpkg": isValue, "installsuffix": isValue, "pgo": isValue, "pkgdir": isValue,
		},
		switches: "a asan buildvcs cover json linkshared modcacherw msan n race trimpath v work x",
	},
	// cargo-run(1): the nearest manifest.
	{names: "cargo", dir: "C", defaults: []string{"Cargo.toml"}, up: true, long: map[string]kind{"manifest-path": isFile}},
	// They read commands from stdin.
	{names: "sqlite psql mysql mariadb gdb lldb ed ex vi vim nvim emacs bc dc m4 ghci ocaml erl iex irb pry scala jshell ssh at batch crontab parted fdisk", live: true},

	// Programs that run the program in their operands: the coreutils, findutils
	// and util-linux manuals, and busybox, whose operand is one of its own.
	{
		names: "env", live: true, wraps: true, follow: true, assigns: true, flags: "0v", clear: "i", unset: "u", split: "S", dir: "C",
		long: map[string]kind{"unset": isUnset, "chdir": isDir, "split-string": isSplit, "ignore-environment": isClear}, switches: "null debug block-signal default-signal ignore-signal list-signal-handling",
	},
	{names: "nice", live: true, wraps: true, follow: true, flags: "0123456789", value: "n", long: map[string]kind{"adjustment": isValue}},
	{names: "timeout", live: true, wraps: true, follow: true, flags: "fpv", value: "ks", skip: 1, long: map[string]kind{"kill-after": isValue, "signal": isValue}, switches: "foreground preserve-status verbose"},
	{names: "nohup", live: true, wraps: true, follow: true},
	{names: "setsid", live: true, wraps: true, follow: true, flags: "cfw", switches: "ctty fork wait"},
	{names: "stdbuf", live: true, wraps: true, follow: true, value: "ioe", long: map[string]kind{"input": isValue, "output": isValue, "error": isValue}},
	{names: "time", live: true, wraps: true, follow: true, flags: "apqv", value: "fo", long: map[string]kind{"format": isValue, "output": isValue}, switches: "append portability quiet verbose"},
	{names: "ionice", live: true, wraps: true, follow: true, flags: "t", value: "cn", long: map[string]kind{"class": isValue, "classdata": isValue}, switches: "ignore"},
	{
		names: "chrt", live: true, wraps: true, follow: true, flags: "abdfiorRv", value: "TPD", skip: 1, number: true,
		long: map[string]kind{"sched-runtime": isValue, "sched-period": isValue, "sched-deadline": isValue}, switches: "all-tasks batch deadline fifo idle other rr reset-on-fork verbose",
	},
	{names: "taskset", live: true, wraps: true, follow: true, flags: "ac", skip: 1, switches: "all-tasks cpu-list"},
	{names: "busybox toybox coreutils", live: true, wraps: true, follow: true, applets: true},
	// These are named in the plan and not followed: their operands are not the whole
	// command line of the program, or who runs it changes.
	{names: "xargs parallel", live: true, wraps: true, value: "adEILnPsj", long: map[string]kind{"arg-file": isValue, "delimiter": isValue, "max-args": isValue, "max-procs": isValue, "max-lines": isValue, "replace": isValue}},
	{names: "command exec", live: true, wraps: true},
	{names: "flock", live: true, wraps: true, value: "wE", skip: 1},
	{names: "strace ltrace", live: true, wraps: true, value: "eopsuEaOPSXI"},
	{names: "sudo doas su runuser setpriv", live: true, wraps: true, assigns: true, value: "ugCcs"},
	{names: "unshare nsenter", live: true, wraps: true, value: "SGRw"},
	{names: "chroot", live: true, wraps: true, skip: 1},
	{names: "watch", live: true, wraps: true, value: "n"},
	{
		names: "find fd fdfind", single: true,
		long: map[string]kind{"exec": isProgram, "execdir": isProgram, "ok": isProgram, "okdir": isProgram, "x": isProgram, "X": isProgram, "exec-batch": isProgram},
	},
}
