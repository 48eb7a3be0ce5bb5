package process

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/cell"
	programs "palyra/internal/program"
)

func withEnv(names ...string) string {
	m := map[string]string{}
	for _, n := range names {
		m[n] = "hunter2"
	}
	raw, _ := json.Marshal(m)
	return `{"command":"x","env":` + string(raw) + `}`
}

// A refused name is refused by itself and never tells its value.
func TestEnvRefused(t *testing.T) {
	d := driver(t, Config{})
	for _, name := range strings.Fields(`
		LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES MY_PRELOAD_LIB GCONV_PATH GLIBC_TUNABLES
		PATH HOME TMPDIR PALYRA_HOME SHELL
		GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_DIR GIT_EXEC_PATH GIT_PROXY_COMMAND GIT_TEMPLATE_DIR
		NODE_OPTIONS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS ANYTHING_OPTIONS NODE_PATH npm_config_script_shell NPM_CONFIG_PREFIX
		PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONWARNINGS PYTHONBREAKPOINT PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB
		BASH_ENV ENV PROMPT_COMMAND IFS SHELLOPTS BASHOPTS PS4 BASH_XTRACEFD ZDOTDIR CDPATH
		MAKEFLAGS GOFLAGS RUSTFLAGS CFLAGS RUSTC_WRAPPER RUSTC CARGO_BUILD_RUSTC CC CXX GOCACHEPROG GOTOOLCHAIN GOPROXY CMAKE_C_COMPILER_LAUNCHER
		EDITOR VISUAL PAGER MANPAGER BROWSER SSH_ASKPASS SUDO_ASKPASS LESSOPEN VIMINIT LUA_INIT LUA_INIT_5_4 OPENSSL_CONF KUBECONFIG
		HTTP_PROXY https_proxy ALL_PROXY SSL_CERT_FILE NODE_TLS_REJECT_UNAUTHORIZED SSH_AUTH_SOCK XDG_CONFIG_HOME
		GITHUB_TOKEN github_token TOKEN AWS_SECRET_ACCESS_KEY PGPASSWORD DB_PASSWORD PASSWD OPENAI_API_KEY APIKEY SIGNING_PRIVATE_KEY GOOGLE_APPLICATION_CREDENTIALS
		DOTNET_STARTUP_HOOKS dotnet_startup_hooks DOTNET_ADDITIONAL_DEPS DOTNET_ROOT DOTNET_SHARED_STORE CORECLR_PROFILER CORECLR_ENABLE_PROFILING CORECLR_PROFILER_PATH COR_PROFILER COMPlus_EnableDiagnostics MSBUILDSDKSPATH NUGET_PACKAGES
		ANSIBLE_LIBRARY ANSIBLE_CONFIG ANSIBLE_STRATEGY_PLUGINS ANSIBLE_CALLBACK_PLUGINS TF_CLI_CONFIG_FILE TF_PLUGIN_CACHE_DIR HELM_PLUGINS
		PYTHONUSERBASE PIP_INDEX_URL PIP_CONFIG_FILE PYTEST_PLUGINS PYTEST_ADDOPTS UV_PYTHON YARN_RC_FILENAME YARN_PLUGINS JDK_HOME JAVACMD LUA_PATH LUA_CPATH R_PROFILE R_PROFILE_USER R_HOME
		GIT_CONFIG GIT_CONFIG_KEY_0 GIT_ALTERNATE_OBJECT_DIRECTORIES CARGO_HOME CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER RUSTC_WORKSPACE_WRAPPER RUSTDOC LD AR MAKEFILES GOENV GOTOOLDIR GOMODCACHE
		TERMINFO TERMINFO_DIRS CONFIG_SHELL CONFIG_SITE AUTOCONF M4 TAPE RSYNC_CONNECT_PROG HGRCPATH SVN_EDITOR QML2_IMPORT_PATH GDK_PIXBUF_MODULE_FILE GST_PLUGIN_PATH VK_LAYER_PATH SASL_PATH
		ERL_LIBS ERL_AFLAGS MIX_HOME COMPOSER_HOME GHC_PACKAGE_PATH OCAMLPATH DENO_DIR TS_NODE_PROJECT ELECTRON_RUN_AS_NODE XDG_DATA_DIRS RIPGREP_CONFIG_PATH PSQLRC
		CLIENT_SECRET VAULT_SECRETS KEY_PASSPHRASE AWS_ACCESS_KEY_ID MYSQL_PWD`) {
		_, err := filled(t, d, withEnv("OK", name))
		wants(t, name, err, palyra.ReasonEnvDenied, "leave it out")
		if err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEnvAllowed(t *testing.T) {
	names := strings.Fields(`
		A _ _x a1 LANG LC_ALL TZ CI DEBUG NODE_ENV GOOS GOARCH CGO_ENABLED GOCACHE GOPATH GOMAXPROCS PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED
		GIT_AUTHOR_NAME GIT_COMMITTER_DATE GIT_TERMINAL_PROMPT TERM COLUMNS NO_COLOR FORCE_COLOR CARGO_TARGET_DIR USER MAX_TOKENS TOKENIZERS_PARALLELISM
		AUTHOR KEYBOARD PRIMARY_KEY SECRETARY VERBOSE SOURCE_DATE_EPOCH env path
		LC_CTYPE GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME DOTNET_NOLOGO DOTNET_CLI_TELEMETRY_OPTOUT ANSIBLE_FORCE_COLOR MIX_ENV UV_THREADPOOL_SIZE MYSQL_HOST STACK_NAME PGHOST PGDATABASE
		RAILS_ENV RACK_ENV FLASK_ENV BABEL_ENV MALLOC_ARENA_MAX OMP_NUM_THREADS RUST_LOG RUST_BACKTRACE PYTHONIOENCODING PYTHONUTF8 CLICOLOR LINES GOTRACEBACK GOGC PORT HOST LOG_LEVEL TF_VAR_x CORES`)
	p, err := filled(t, driver(t, Config{}), withEnv(names...))
	if err != nil || len(p.Env) != len(names) || !slices.IsSortedFunc(p.Env,
		func(a, b palyra.EnvVar) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%+v, %v", p.Env, err)
	}
}

func TestEnvNames(t *testing.T) {
	d := driver(t, Config{})
	for _, name := range []string{"", "1A", "A-B", "A B", "A=B", "É", "A\n", "BASH_FUNC_x%%", strings.Repeat("A", 257)} {
		_, err := filled(t, d, withEnv(name))
		wants(t, name, err, palyra.ReasonMalformedInput, "letters")
	}
	var many []string
	for i := range maxEnv + 1 {
		many = append(many, fmt.Sprintf("A%d", i))
	}
	_, err := filled(t, d, withEnv(many...))
	wants(t, "too many", err, palyra.ReasonMalformedInput, "128")
	if _, err := filled(t, d, withEnv(many[1:]...)); err != nil {
		t.Error(err)
	}
}

// Another lookup path than the usual one is part of the plan, the usual one is
// not: it is the same for everyone.
func TestPathIsBound(t *testing.T) {
	p, err := filled(t, driver(t, Config{Path: []string{"/opt/bin", "/bin"}}), `{"command":"x","env":{"A":"1","Z":"2"}}`)
	if err != nil || len(p.Env) != 3 || p.Env[1] != variable("PATH", "/opt/bin:/bin") || p.Env[2].Name != "Z" {
		t.Errorf("%+v, %v", p.Env, err)
	}
	p, err = filled(t, driver(t, Config{Path: strings.Split(cell.SearchPath, ":")}), `{"command":"x"}`)
	if err != nil || len(p.Env) != 0 {
		t.Errorf("%+v, %v", p.Env, err)
	}
}

// The table itself: no pattern that says nothing, no exception without a rule.
func TestEnvTable(t *testing.T) {
	for _, r := range programs.Shipped().Refused {
		for _, n := range strings.Fields(r.Names) {
			if bare := strings.Trim(n, "*"); len(bare) < 2 || !identifier(bare) || strings.Contains(bare, "*") {
				t.Errorf("pattern %q", n)
			}
		}
		if r.Why == "" || r.Names == "" {
			t.Errorf("%+v has no reason or no names", r)
		}
		for _, e := range r.Except {
			if err := envAllowed(e); err != nil {
				t.Errorf("%s is an exception and refused: %v", e, err)
			}
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"A", "A", true},
		{"A", "AB", false},
		{"A*", "AB", true},
		{"A*", "BA", false},
		{"*A", "BA", true},
		{"*A", "AB", false},
		{"*A*", "BAB", true},
		{"*A*", "BB", false},
	} {
		if matches(c.pattern, c.name) != c.want {
			t.Errorf("%s %s", c.pattern, c.name)
		}
	}
}
