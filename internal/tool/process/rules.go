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
	long     map[string]kind // long options with a value, with one dash or two
	verb     string          // the operands count only after this one
	script   bool            // the first operand is a file of instructions
	suffix   string          // all leading operands of this ending are
	tries    []string        // endings that are tried when the operand is not a file
	within   []string        // names that count when the operand is a directory
	defaults []string        // used when no file is named: the first that exists
	up       bool            // the directories above, up to the workspace, are searched for the defaults
	wraps    bool            // an operand is a program to run
	skip     int             // operands before that one
}

// kind is what an option's value is.
type kind byte

const (
	isValue kind = iota
	isFile
	isDir
	isInline
	isProgram
)

// rules is the table. The source of each row is the program's own manual.
var rules = []rule{
	// POSIX sh(1); bash(1): -o and -O take the next argument wherever they stand.
	{
		names: "sh bash dash ash zsh ksh mksh rbash", live: true, plus: true, inline: "cs", next: "oO", script: true,
		long: map[string]kind{"rcfile": isFile, "init-file": isFile},
	},
	{names: "fish csh tcsh", live: true, inline: "c", value: "dCo", script: true, long: map[string]kind{"command": isInline, "init-command": isValue}},
	// python(1): -c and -m end the options.
	{
		names: "python pypy pythonw", live: true, inline: "cm", value: "WXQ", script: true, within: []string{"__main__.py"},
		long: map[string]kind{"check-hash-based-pycs": isValue},
	},
	// node(1); modules(7): the endings that are tried, and what a directory stands for.
	{
		names: "node nodejs", live: true, inline: "ep", file: "r", value: "C", script: true,
		tries: []string{".js", ".json", ".node"}, within: []string{"package.json", "index.js"},
		long: map[string]kind{
			"eval": isInline, "print": isInline, "require": isFile, "import": isFile, "loader": isFile, "experimental-loader": isFile,
			"conditions": isValue, "input-type": isValue, "env-file": isFile, "run": isInline,
		},
	},
	// deno-run(1), bun run.
	{names: "deno", live: true, verb: "run", value: "c", script: true, long: map[string]kind{"config": isFile, "import-map": isFile}},
	{names: "bun", live: true, verb: "run", inline: "e", script: true, defaults: []string{"package.json"}, up: true, long: map[string]kind{"cwd": isDir, "preload": isFile}},
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
	{names: "R", live: true, inline: "e", file: "f", long: map[string]kind{"file": isFile}},
	{names: "julia", live: true, inline: "eE", value: "pJCt", file: "L", script: true},
	{names: "guile", live: true, inline: "ce", file: "ls", script: true},
	// java(1): -jar, and single-file source programs.
	{names: "java", live: true, suffix: ".java", long: map[string]kind{"jar": isFile, "cp": isValue, "classpath": isValue, "class-path": isValue, "p": isValue, "module-path": isValue}},
	// awk(1), gawk(1): -f may be repeated; without it the first operand is the program text.
	{names: "awk gawk mawk nawk original-awk", live: true, file: "fE", value: "vF", inline: "e", long: map[string]kind{"file": isFile, "exec": isFile, "include": isFile, "source": isInline, "assign": isValue, "field-separator": isValue}},
	// sed(1).
	{names: "sed gsed", live: true, file: "f", inline: "e", value: "l", attached: "i", long: map[string]kind{"file": isFile, "expression": isInline, "line-length": isValue}},
	// jq(1): -f takes the program from a file.
	{names: "jq", file: "f", long: map[string]kind{"from-file": isFile}},
	// make(1): GNUmakefile, makefile and Makefile, in this order.
	{
		names: "make gmake", live: true, file: "f", dir: "C", value: "IoWE", attached: "jlO", defaults: []string{"GNUmakefile", "makefile", "Makefile"},
		long: map[string]kind{
			"file": isFile, "makefile": isFile, "directory": isDir, "include-dir": isValue, "old-file": isValue, "assume-old": isValue,
			"what-if": isValue, "new-file": isValue, "assume-new": isValue, "eval": isValue,
		},
	},
	// ninja(1), just(1), rake(1).
	{names: "ninja samu", file: "f", dir: "C", value: "jkldtw", defaults: []string{"build.ninja"}},
	{names: "just", file: "f", dir: "d", defaults: []string{"justfile", "Justfile", ".justfile"}, up: true, long: map[string]kind{"justfile": isFile, "working-directory": isDir}},
	{names: "rake", file: "f", value: "IrRC", defaults: []string{"rakefile", "Rakefile", "rakefile.rb", "Rakefile.rb"}, up: true, long: map[string]kind{"rakefile": isFile}},
	// package-json(5), npm-run-script(1): scripts run from the nearest package.json, also
	// those that go with install.
	{names: "npm npx pnpm pnpx yarn", dir: "C", defaults: []string{"package.json"}, up: true, long: map[string]kind{"prefix": isDir, "dir": isDir, "cwd": isDir}},
	// go help run.
	{names: "go", verb: "run", suffix: ".go", long: map[string]kind{"C": isDir, "exec": isValue, "tags": isValue, "mod": isValue, "ldflags": isValue, "gcflags": isValue, "p": isValue, "overlay": isFile, "modfile": isFile, "toolexec": isValue}},
	// cargo-run(1): the nearest manifest.
	{names: "cargo", dir: "C", defaults: []string{"Cargo.toml"}, up: true, long: map[string]kind{"manifest-path": isFile}},
	// They read commands from stdin.
	{names: "sqlite psql mysql mariadb gdb lldb ed ex vi vim nvim emacs bc dc m4 ghci ocaml erl iex irb pry scala jshell ssh at batch crontab parted fdisk", live: true},

	// Programs that run the program in their operands: the coreutils, findutils
	// and util-linux manuals, and busybox, whose operand is one of its own.
	{names: "env", live: true, wraps: true, dir: "C", value: "u", inline: "S", long: map[string]kind{"unset": isValue, "chdir": isDir, "split-string": isInline}},
	{names: "nice", live: true, wraps: true, value: "n", long: map[string]kind{"adjustment": isValue}},
	{names: "timeout", live: true, wraps: true, value: "ks", skip: 1, long: map[string]kind{"kill-after": isValue, "signal": isValue}},
	{names: "xargs parallel", live: true, wraps: true, value: "adEILnPsj", long: map[string]kind{"arg-file": isValue, "delimiter": isValue, "max-args": isValue, "max-procs": isValue, "max-lines": isValue, "replace": isValue}},
	{names: "nohup setsid time command exec", live: true, wraps: true, value: "fo"},
	{names: "stdbuf", live: true, wraps: true, value: "ioe"},
	{names: "ionice", live: true, wraps: true, value: "cnp"},
	{names: "chrt taskset", live: true, wraps: true, skip: 1},
	{names: "flock", live: true, wraps: true, value: "wE", skip: 1},
	{names: "strace ltrace", live: true, wraps: true, value: "eopsuEaOPSXI"},
	{names: "sudo doas su runuser setpriv", live: true, wraps: true, value: "ugCcs"},
	{names: "unshare nsenter", live: true, wraps: true, value: "SGRw"},
	{names: "chroot", live: true, wraps: true, skip: 1},
	{names: "watch busybox toybox", live: true, wraps: true, value: "n"},
	{names: "find fd fdfind", long: map[string]kind{"exec": isProgram, "execdir": isProgram, "ok": isProgram, "okdir": isProgram, "x": isProgram, "X": isProgram, "exec-batch": isProgram}},
}
