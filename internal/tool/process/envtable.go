package process

// refusal is a set of environment names and why they are refused. A star stands
// for anything at the beginning or the end of a name.
type refusal struct {
	why     string
	names   string   // separated by spaces
	except  []string // that the pattern matches and that are harmless
	anyCase bool     // programs read the name in any case
}

// refusedEnv lists names that make a program run or load something else than its
// arguments say. Sources: ld.so(8) on secure-execution mode, sudo's
// initial_badenv_table (plugins/sudoers/env.c), bash(1), zshparam(1), git(1),
// python(1), perlrun(1), ruby(1), node(1), java(1), make(1), "go help
// environment", the environment chapters of cargo and npm, less(1), ssh(1),
// openssl-env(7).
var refusedEnv = []refusal{
	{why: "the sandbox sets it itself", names: "PATH HOME TMPDIR TMP TEMP PWD OLDPWD SHELL PALYRA_*"},
	{why: "it makes the dynamic loader load other code", names: "LD_* DYLD_* _RLD* *PRELOAD* GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH LIBPATH SHLIB_PATH GTK_MODULES GTK_PATH GIO_EXTRA_MODULES QT_PLUGIN_PATH"},
	{why: "it changes what shells run", names: "BASH_* BASHOPTS SHELLOPTS ENV IFS CDPATH GLOBIGNORE PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 POSIXLY_CORRECT ZDOTDIR FPATH NULLCMD READNULLCMD TMPPREFIX KSH_ENV INPUTRC"},
	{why: "git runs programs or reads configuration by it", names: "GIT_*", except: []string{
		"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
		"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_PAGER_IN_USE", "GIT_ADVICE", "GIT_FLUSH",
	}},
	{why: "options in it make programs load other code", names: "*_OPTIONS *_OPTS *FLAGS *_JAVA_OPTIONS"},
	{why: "Python loads or runs code by it", names: "PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT PYTHONWARNINGS PYTHONEXECUTABLE PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTHONCASEOK PYTHON_PRESITE PYENV_* VIRTUAL_ENV CONDA_* PIP_*"},
	{why: "Perl loads or runs code by it", names: "PERL5* PERLLIB PERLIO* PERL_*"},
	{why: "Ruby loads or runs code by it", names: "RUBY* GEM_* BUNDLE_* RBENV_*"},
	{why: "Node loads or runs code by it", names: "NODE_PATH NODE_REPL_* NODE_CHANNEL_* NODE_V8_COVERAGE NODE_PENDING_* NVM_* COREPACK_*"},
	{why: "the package manager runs programs by it", names: "npm_* yarn_* pnpm_* bun_*", anyCase: true},
	{why: "Java loads code by it", names: "CLASSPATH JAVA_HOME JAVA_TOOL_* JDK_HOME M2_HOME GRADLE_*"},
	{why: "the language loads or runs code by it", names: "LUA_* PHPRC PHP_INI_SCAN_DIR R_PROFILE* R_ENVIRON* R_LIBS* JULIA_* TCLLIBPATH AWKPATH AWKLIBPATH ERL_* ELIXIR_* OPAM* OCAML* GUILE_* EMACSLOADPATH"},
	{why: "the Go tool runs programs or trusts servers by it", names: "GOROOT GOENV GOTOOLDIR GOTOOLCHAIN GOCACHEPROG GOAUTH GOPROXY GOSUMDB GONOSUMDB GONOPROXY GONOSUMCHECK GOINSECURE GOPRIVATE GOVCS GOWORK GCCGO PKG_CONFIG*"},
	{why: "Cargo runs programs by it", names: "CARGO_* RUSTC* RUSTDOC* RUSTUP_*", except: []string{"CARGO_TERM_COLOR", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_BUILD_JOBS"}},
	{why: "it names a program that builds run", names: "CC CXX CPP LD AR AS NM RANLIB FC CC_* CXX_* *_LAUNCHER *_WRAPPER MAKE MAKEFILES MAKELEVEL COMPILER_PATH GCC_* CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH CMAKE_* CCACHE_* DISTCC_*"},
	{why: "it names a program that others run", names: "EDITOR VISUAL FCEDIT SUDO_EDITOR PAGER *_PAGER MANPAGER BROWSER *_EDITOR *_ASKPASS LESS LESSOPEN LESSCLOSE LESSKEY* MORE VIMINIT EXINIT VIM VIMRUNTIME MYVIMRC GVIMINIT TAR_* RSYNC_RSH CVS_RSH SVN_SSH"},
	{why: "it points programs at other configuration", names: "XDG_CONFIG_* KUBECONFIG AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE DOCKER_* TERMINFO TERMINFO_DIRS TERMCAP TERMPATH OPENSSL_* RES_OPTIONS LOCALDOMAIN HOSTALIASES RESOLV_HOST_CONF NETRC CURL_HOME WGETRC GNUPGHOME"},
	{why: "it changes whom programs trust or how they reach the network", names: "*_PROXY SSL_CERT_* *_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED *_CAINFO SSLKEYLOGFILE", anyCase: true},
	{why: "it leads to keys or to programs outside the sandbox", names: "SSH_* GPG_AGENT_INFO DBUS_* XAUTHORITY DISPLAY WAYLAND_DISPLAY KRB5*"},
}

// secretWords end a part of a name whose value is a secret; secretPairs are such
// parts that only count together.
var (
	secretWords = []string{"TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "CREDENTIALS", "APIKEY", "PRIVATEKEY", "ACCESSKEY"}
	secretPairs = []string{"API_KEY", "PRIVATE_KEY", "ACCESS_KEY", "SECRET_KEY", "SIGNING_KEY", "ENCRYPTION_KEY", "SSH_KEY", "MYSQL_PWD", "AUTH_KEY"}
)
