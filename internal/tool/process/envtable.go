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
// environment", the environment chapters of cargo, npm, pip, the .NET runtime,
// ansible and Terraform, less(1), ssh(1), openssl-env(7), the coreutils, autoconf
// and GTK manuals.
var refusedEnv = []refusal{
	{why: "the sandbox sets it itself", names: "PATH HOME TMPDIR TMP TEMP PWD OLDPWD SHELL PALYRA_*"},
	{why: "it makes the dynamic loader load other code", names: "LD_* DYLD_* _RLD* *PRELOAD* GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH LIBPATH SHLIB_PATH GTK_MODULES GTK_PATH GTK3_MODULES GTK_EXE_PREFIX GTK_IM_MODULE_FILE GIO_EXTRA_MODULES GIO_MODULE_DIR GDK_PIXBUF_MODULE* GST_PLUGIN_* QT_PLUGIN_PATH QT_QPA_PLATFORM_PLUGIN_PATH QML_IMPORT_PATH QML2_IMPORT_PATH MAGICK_* SASL_PATH OCL_ICD_* CUDA_INJECTION* VK_LAYER_PATH VK_ADD_* VK_INSTANCE_LAYERS VK_ICD_FILENAMES VK_DRIVER_FILES LIBGL_* MALLOC_TRACE GETCONF_DIR"},
	{why: "it changes what shells run", names: "BASH_* BASHOPTS SHELLOPTS ENV IFS CDPATH GLOBIGNORE PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 EXECIGNORE MAILPATH POSIXLY_CORRECT ZDOTDIR FPATH NULLCMD READNULLCMD TMPPREFIX KSH_ENV INPUTRC"},
	{why: "git runs programs or reads configuration by it", names: "GIT_*", except: []string{
		"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_DATE",
		"GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_PAGER_IN_USE", "GIT_ADVICE", "GIT_FLUSH",
	}},
	{why: "options in it make programs load other code", names: "*_OPTIONS *_OPTS *FLAGS *_JAVA_OPTIONS"},
	{why: "Python loads or runs code by it", names: "PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONINSPECT PYTHONUSERBASE PYTHONBREAKPOINT PYTHONWARNINGS PYTHONEXECUTABLE PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTHONCASEOK PYTHON_PRESITE PYENV_* VIRTUAL_ENV CONDA_* PIP_* PIPX_* PIPENV_* POETRY_* UV_* PYTEST_PLUGINS PYTEST_ADDOPTS DJANGO_SETTINGS_MODULE IPYTHONDIR JUPYTER_*", except: []string{"UV_THREADPOOL_SIZE"}},
	{why: "Perl loads or runs code by it", names: "PERL5* PERLLIB PERLIO* PERL_*"},
	{why: "Ruby loads or runs code by it", names: "RUBY* GEM_* BUNDLE_* RBENV_*"},
	{why: "Node loads or runs code by it", names: "NODE_PATH NODE_REPL_* NODE_CHANNEL_* NODE_V8_COVERAGE NODE_PENDING_* NODE_GYP_* NVM_* COREPACK_* DENO_* TS_NODE_* ELECTRON_RUN_AS_NODE"},
	{why: "the package manager runs programs by it", names: "npm_* yarn_* pnpm_* bun_*", anyCase: true},
	{why: "Java loads code by it", names: "CLASSPATH JAVA_HOME JAVA_TOOL_* JDK_* JRE_HOME JAVACMD M2_HOME MAVEN_* GRADLE_* SBT_* KOTLIN_HOME SCALA_HOME"},
	{why: ".NET loads code by it", names: "DOTNET_* CORECLR_* COR_* COMPLUS_* MONO_* MSBUILD* NUGET_*", anyCase: true, except: []string{
		"DOTNET_CLI_TELEMETRY_OPTOUT", "DOTNET_NOLOGO", "DOTNET_CLI_UI_LANGUAGE", "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "DOTNET_SKIP_FIRST_TIME_EXPERIENCE",
	}},
	{why: "it makes a deployment tool load plugins or run programs", names: "ANSIBLE_* TF_CLI_* TF_PLUGIN_* TF_REATTACH_* TERRAFORM_* HELM_* PULUMI_HOME VAGRANT_* PACKER_* PRE_COMMIT_HOME", except: []string{
		"ANSIBLE_FORCE_COLOR", "ANSIBLE_NOCOLOR",
	}},
	{why: "the language loads or runs code by it", names: "LUA_* PHPRC PHP_INI_SCAN_DIR R_PROFILE* R_ENVIRON* R_LIBS* R_HOME JULIA_* TCLLIBPATH TCL_LIBRARY TK_LIBRARY AWKPATH AWKLIBPATH ERL_* ELIXIR_* OPAM* OCAML* CAML* GUILE_* EMACSLOADPATH EMACSDATA EMACSPATH GHC_* STACK_ROOT STACK_YAML STACK_CONFIG CABAL_* MIX_* HEX_* REBAR_* COMPOSER_* DUB_* SWIFT_* ZIG_*", except: []string{"MIX_ENV"}},
	{why: "the Go tool runs programs or trusts servers by it", names: "GOROOT GOENV GOTOOLDIR GOTOOLCHAIN GOCACHEPROG GOAUTH GOPROXY GOSUMDB GONOSUMDB GONOPROXY GONOSUMCHECK GOINSECURE GOPRIVATE GOVCS GOWORK GOMODCACHE GO_LDSO GCCGO* PKG_CONFIG*"},
	{why: "Cargo runs programs by it", names: "CARGO_* RUSTC* RUSTDOC* RUSTUP_*", except: []string{"CARGO_TERM_COLOR", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL", "CARGO_BUILD_JOBS"}},
	{why: "it names a program that builds run", names: "CC CXX CPP LD AR AS NM OBJC OBJCOPY OBJDUMP STRIP RANLIB FC F77 YACC LEX CC_* CXX_* *_LAUNCHER *_WRAPPER MAKE MAKEFILES MAKELEVEL COMPILER_PATH GCC_* CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH CMAKE_* MESON_* BAZEL_* CCACHE_* SCCACHE_* DISTCC_* LLVM_* LIBTOOL* ACLOCAL* AUTOCONF AUTOM4TE AUTOMAKE AUTOHEADER M4 M4PATH MAKEINFO CONFIG_SITE CONFIG_SHELL MAKESHELL"},
	{why: "it names a program that others run", names: "EDITOR VISUAL FCEDIT SUDO_EDITOR PAGER *_PAGER MANPAGER BROWSER *_EDITOR *_ASKPASS LESS LESSOPEN LESSCLOSE LESSKEY* MORE VIMINIT EXINIT VIM VIMRUNTIME MYVIMRC GVIMINIT TAR_* TAPE RSYNC_* CVS_RSH CVSEDITOR SVN_* HG HGEDITOR HGMERGE HGRCPATH BZR_* GDBHISTFILE GROFF_* MANROFFSEQ MANOPT MANPATH FZF_* RIPGREP_CONFIG_PATH PARALLEL PSQLRC PSQL_* SQLITE_HISTORY SCREENRC SYSSCREENRC TMUX*"},
	{why: "it points programs at other configuration", names: "XDG_CONFIG_* XDG_DATA_* XDG_RUNTIME_DIR KUBECONFIG AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE DOCKER_* TERMINFO TERMINFO_DIRS TERMCAP TERMPATH OPENSSL_* RES_OPTIONS LOCALDOMAIN HOSTALIASES RESOLV_HOST_CONF NETRC CURL_HOME WGETRC SYSTEM_WGETRC GNUPGHOME FONTCONFIG_* ODBC* MYSQL_HOME MYSQL_TEST_LOGIN_FILE LIBMYSQL_PLUGIN* PGSERVICEFILE PGSYSCONFDIR TNS_ADMIN"},
	{why: "it changes whom programs trust or how they reach the network", names: "*_PROXY SSL_CERT_* *_CA_BUNDLE NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED *_CAINFO SSLKEYLOGFILE", anyCase: true},
	{why: "it leads to keys or to programs outside the sandbox", names: "SSH_* GPG_AGENT_INFO DBUS_* XAUTHORITY DISPLAY WAYLAND_DISPLAY KRB5*"},
}

// secretWords end a part of a name whose value is a secret; secretPairs are such
// parts that only count together.
var (
	secretWords = []string{"TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "CREDENTIALS", "APIKEY", "PRIVATEKEY", "ACCESSKEY"}
	secretPairs = []string{"API_KEY", "PRIVATE_KEY", "ACCESS_KEY", "SECRET_KEY", "SIGNING_KEY", "ENCRYPTION_KEY", "SSH_KEY", "MYSQL_PWD", "AUTH_KEY"}
)
