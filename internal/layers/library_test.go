package layers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// home says where an outside library may be used. The longest prefix that
// matches decides. A library that is not listed has no home yet: give it one on
// purpose, with a reason in CONTRIBUTING.md's terms.
var home = map[string][]string{
	"connectrpc.com/connect":                  {"api/gen/**", "internal/rpc/**", "client/**"},
	"connectrpc.com/grpchealth":               {"internal/rpc/**", "client/**"},
	"connectrpc.com/grpcreflect":              {"internal/rpc/**"},
	"filippo.io/age":                          {"internal/agefile"},
	"github.com/anthropics/anthropic-sdk-go":  {"internal/agent/anthropic"},
	"github.com/openai/openai-go/v3":          {"internal/agent/openai"},
	"github.com/bluekeyes/go-gitdiff":         {"internal/tool/files/**"},
	"github.com/cedar-policy/cedar-go":        {"internal/policy/**"},
	"charm.land/bubbletea/v2":                 {"internal/cli/tui"},
	"github.com/charmbracelet/x/ansi":         {"internal/cli/tui"},
	"github.com/coder/acp-go-sdk":             {"internal/cli/acp"},
	"github.com/bytecodealliance/wasmtime-go": {"cmd/palyra-wasm", "internal/wasm/wasmtest/wat"}, // the only C: nothing else may link it
	"github.com/elastic/go-seccomp-bpf":       {"internal/sandbox/cells", "cmd/palyra-wasm"},
	"github.com/go-webauthn/webauthn":         {"internal/webauthn"},
	"github.com/godbus/dbus/v5": {
		"internal/sessionbus", "internal/vault/keeper", "internal/vault/keepertest", "internal/cli/notify",
	},
	"github.com/google/jsonschema-go":        {"internal/catalog"},
	"github.com/in-toto/attestation":         {"internal/attest"},
	"github.com/gtank/ristretto255":          {"internal/pairing/cpace"},
	"github.com/mdp/qrterminal/v3":           {"internal/cli"},
	"golang.org/x/time/rate":                 {"internal/limit"},
	"github.com/modelcontextprotocol/go-sdk": {"internal/mcp/**"},
	"github.com/oklog/ulid/v2":               {"internal/ulid"},
	"github.com/pelletier/go-toml/v2": {
		"internal/config", "internal/profile", "internal/mcp/install", "internal/skill",
	},
	"github.com/pressly/goose/v3":                       {"internal/store"},
	"github.com/secure-systems-lab/go-securesystemslib": {"internal/attest", "internal/skill/archive"},
	"github.com/spf13/cobra":                            {"internal/cli/**"},
	"go.yaml.in/yaml/v3":                                {"internal/agent/scripted", "internal/policy/tables", "internal/mcp/install"},
	"mvdan.cc/sh/v3":                                    {"internal/command"},
	"golang.org/x/net/bpf":                              {"internal/sandbox/cells"},
	"golang.org/x/net/dns/dnsmessage":                   {"internal/egress"},
	"golang.org/x/net/idna":                             {"internal/egress"},
	"golang.org/x/net/publicsuffix":                     {"internal/egress"},
	"golang.org/x/mod/sumdb/note":                       {"internal/journal"},
	"golang.org/x/mod/sumdb/tlog":                       {"internal/journal"},
	"golang.org/x/crypto/chacha20poly1305":              {"internal/vault"},
	"golang.org/x/crypto/ssh":                           {"internal/signing/**"},
	"github.com/ProtonMail/go-crypto":                   {"internal/signing/openpgp"},
	"golang.org/x/term":                                 {"internal/cli/**"},
	"google.golang.org/protobuf":                        {"api/gen/**", "internal/rpc/**", "client/**"},
	"modernc.org/sqlite":                                {"internal/store/sqlite"},
	"znkr.io/diff":                                      {"internal/tool/files/**", "internal/undo", "internal/gitobject"},
	"golang.org/x/sys": { // the system call layer: a longer standard library
		"cmd/palyra-cell", "cmd/palyra-wasm", "internal/rpc/**",
		"internal/tool/**", "internal/cli/**", "internal/sandbox/**", "internal/cell/**",
		"internal/agentstage", "internal/beneath", "internal/bootclock",
		"internal/dirents", "internal/dotenv", "internal/fingerprint", "internal/foreignfile", "internal/layered",
		"internal/moved", "internal/nocore",
		"internal/owner", "internal/preimage", "internal/quarantine", "internal/repofind", "internal/seal",
		"internal/stage/**", "internal/symlink", "internal/profile", "internal/publish",
		"internal/vault/keeper",
	},
}

// testOnly are libraries that tests may use anywhere and nothing else may.
var testOnly = []string{
	"github.com/google/go-cmp", "github.com/makiuchi-d/gozxing", "github.com/rogpeppe/go-internal", "go.uber.org/goleak", "pgregory.net/rapid",
}

func under(imp, lib string) bool { return imp == lib || strings.HasPrefix(imp, lib+"/") }

// outside reports whether an import path is neither ours nor the standard
// library's, whose first element has no dot.
func outside(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	_, our := ours(imp)
	return !our && strings.Contains(first, ".")
}

func libraries(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		for _, imp := range slices.Sorted(maps.Keys(f.imports())) {
			if !outside(imp) {
				continue
			}
			if slices.ContainsFunc(testOnly, func(l string) bool { return under(imp, l) }) {
				if !f.test && !strings.HasSuffix(f.dir, "test") { // storetest and the like are tests by another name
					bad = append(bad, fmt.Sprintf("%s imports %s, which is for tests", f.name, imp))
				}
				continue
			}
			if !housed(imp, f) {
				bad = append(bad, fmt.Sprintf("%s imports %s, whose home is %v", f.name, imp, homeOf(imp)))
			}
		}
	}
	return bad
}

// housed: a test may also use a library whose home is elsewhere, as an oracle
// or to stand in for a client; it must still be a library that has a home.
func housed(imp string, f *file) bool {
	dirs := homeOf(imp)
	return matchesAny(dirs, f.dir) || (f.test && dirs != nil)
}

func homeOf(imp string) []string {
	best := ""
	for lib := range home {
		if under(imp, lib) && len(lib) > len(best) {
			best = lib
		}
	}
	return home[best]
}

func TestLibraries(t *testing.T) { hold(t, libraries) }

func TestLibrariesFires(t *testing.T) {
	imp := func(lib string) string { return "package x\n\nimport _ \"" + lib + "\"\n" }
	fires(t, libraries,
		one("away from home", "internal/journal/x.go", imp("github.com/cedar-policy/cedar-go/types"), "whose home is [internal/policy/**]"),
		one("at home", "internal/policy/x.go", imp("github.com/cedar-policy/cedar-go/types")),
		one("unlisted", "internal/policy/x.go", imp("github.com/sirupsen/logrus"), "logrus"),
		one("unlisted in a test", "internal/policy/x_test.go", imp("github.com/stretchr/testify"), "testify"),
		one("a neighbour's name is not a home", "internal/policy/x.go", imp("github.com/cedar-policy/cedar-gone"), "cedar-gone"),
		one("a test library in code", "internal/policy/x.go", imp("github.com/google/go-cmp/cmp"), "for tests"),
		one("a test library in a test", "internal/policy/x_test.go", imp("github.com/google/go-cmp/cmp")),
		one("a test library in a suite", "internal/store/storetest/x.go", imp("github.com/google/go-cmp/cmp")),
		one("an oracle in a test", "internal/attest/x_test.go", imp("golang.org/x/mod/sumdb/note")),
		one("the verifier stands alone", "cmd/palyra-verify/x.go", imp("golang.org/x/mod/sumdb/note"), "whose home is"),
		one("the standard library", "internal/policy/x.go", imp("encoding/json")),
	)
}

// A home that nobody lives in any more should be taken off the list.
func TestEveryHomeIsLivedIn(t *testing.T) {
	hold(t, func(t *tree) []string {
		var bad []string
		for lib := range home {
			if !slices.ContainsFunc(t.files, func(f *file) bool {
				return slices.ContainsFunc(slices.Collect(maps.Keys(f.imports())), func(imp string) bool { return under(imp, lib) })
			}) {
				bad = append(bad, lib+" has a home and no use")
			}
			for _, dir := range home[lib] {
				if len(home[lib]) > 1 && !slices.ContainsFunc(t.files, func(f *file) bool {
					return !f.test && matches(dir, f.dir) &&
						slices.ContainsFunc(slices.Collect(maps.Keys(f.imports())), func(imp string) bool { return under(imp, lib) })
				}) {
					bad = append(bad, fmt.Sprintf("%s has a home in %s, and no use there", lib, dir))
				}
			}
		}
		slices.Sort(bad)
		return bad
	})
}
