package layers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The layers, bottom to top. Parts never import each other; what one needs of
// another it declares as an interface, and the daemon passes it in.
var (
	// small are tools that know nothing of Palyra: standard library only.
	small = []string{
		"internal/address", "internal/agefile", "internal/agentstage", "internal/beneath", "internal/bootclock",
		"internal/canon", "internal/cell", "internal/certfile",
		"internal/change", "internal/dirents", "internal/dotenv",
		"internal/ulid", "internal/fault", "internal/fingerprint", "internal/foreignfile", "internal/durable", "internal/gitfile",
		"internal/gitlink", "internal/gitobject",
		"internal/gitrepo", "internal/gitwire", "internal/gitwork", "internal/heaptrim", "internal/hostgroup", "internal/hostport",
		"internal/layered", "internal/mask", "internal/mcp/task", "internal/memory", "internal/moved", "internal/nocore",
		"internal/owner", "internal/pace",
		"internal/pack", "internal/passkey", "internal/pattern", "internal/preimage", "internal/program", "internal/prune",
		"internal/publicip", "internal/quarantine", "internal/repofind", "internal/sessionbus", "internal/show", "internal/signwire",
		"internal/stage", "internal/standin",
		"internal/stage/dircopy", "internal/stage/meter", "internal/stage/steps", "internal/subpath", "internal/symlink", "internal/tally",
		"internal/toolname",
		"internal/trusted", "internal/wasm/wire", "internal/web", "internal/webpush",
	}
	// parts keep records or make decisions.
	parts = []string{
		"internal/access", "internal/approval", "internal/attest", "internal/catalog", "internal/identity", "internal/journal",
		"internal/artifact", "internal/audit", "internal/keyring", "internal/plan", "internal/policy",
		"internal/sandbox", "internal/tool", "internal/workspace",
		"internal/egress", "internal/publish", "internal/posture", "internal/profile", "internal/seal", "internal/ca", "internal/pairing",
		"internal/limit", "internal/command", "internal/mcp/upstream", "internal/observe", "internal/session", "internal/signing",
		"internal/skill/registry",
		"internal/statedir", "internal/vault", "internal/wasm", "internal/webauthn",
	}
	// storey is what puts several parts together and is no door: the daemon only wires.
	storey = []string{
		"internal/bundle", "internal/explain", "internal/enrol", "internal/masked", "internal/past", "internal/provider", "internal/push",
		"internal/tiera", "internal/tiers", "internal/undo",
	}
	// support is what tests of several packages share.
	support = []string{"internal/exetest", "internal/*/*test", "internal/sandbox/sandboxtest/probe", "internal/wasm/wasmtest/wat"}
	// mains are programs.
	mains = []string{"cmd/*"}
)

// edge is a row of the import table: may a package of from import one of to?
type edge struct {
	from, to []string
	may      bool
	why      string
}

// edges is the whole table. The first row that matches both ends decides;
// nothing matching is a refusal.
func edges() []edge {
	words := []string{"."}
	return []edge{
		{[]string{"cmd/palyra-cell"}, []string{"internal/cell", "internal/cell/*"}, true, "the language it shares with the daemon"},
		{[]string{"cmd/palyra-sign"}, []string{"internal/signwire"}, true, "the language it shares with the daemon"},
		{[]string{"cmd/palyra-wasm"}, []string{"internal/wasm/wire"}, true, "the language it shares with the daemon"},
		{[]string{"cmd/palyra-wasm"}, []string{"**"}, false, "it runs what strangers wrote, and knows no part"},
		{[]string{"internal/tiera"}, []string{"internal/wasm/*"}, true, "the engine of tier A, and what modules ask for"},
		{
			[]string{"internal/wasm/wasmtest"},
			[]string{"internal/wasm", "internal/wasm/engine", "internal/sandbox/bare", "internal/sandbox/celltest"},
			true, "modules are tested in the cells that they run in",
		},
		{[]string{"cmd/palyra-sign"}, []string{"**"}, false, "it runs in rooms, and knows no part"},
		{
			[]string{"internal/cell/probe", "internal/cell/first", "internal/cell/ruleset"},
			[]string{"internal/cell"},
			true,
			"it answers in that language",
		},
		{[]string{"internal/cell/ruleset"}, []string{"**"}, false, "it is a part of the cell, which stands alone"},
		{[]string{"internal/sandbox/confine"}, []string{"internal/cell/ruleset"}, true, "rules of a run are made ahead, and its own added here"},
		{[]string{"internal/cell/first"}, []string{"**"}, false, "it is a part of the cell, which stands alone"},
		{[]string{"**"}, []string{"internal/cell/first"}, false, "only the cell makes the first processes of rooms"},
		{[]string{"internal/cell/probe"}, []string{"**"}, false, "it is a part of the cell, which stands alone"},
		{[]string{"**"}, []string{"internal/cell/probe"}, false, "only the cell tries things from inside"},
		{[]string{"cmd/palyra-verify", "cmd/palyra-cell"}, []string{"**"}, false, "stands alone: standard library and x/sys only"},
		{[]string{"internal/sandbox/sandboxtest/probe"}, []string{"**"}, false, "the program that tries to get out knows nothing of ours"},
		{[]string{"**"}, mains, false, "nothing imports a program"},
		{[]string{"**"}, []string{"internal/layers"}, false, "it has no code"},
		{[]string{"internal/sandbox/sandboxtest"}, []string{"internal/sandbox/celltest"}, true, "the suite needs people and directories too"},
		{support, []string{"internal/exetest"}, true, "a program that a test just wrote must be able to run"},
		{[]string{"internal/passkey/passkeytest"}, []string{".", "internal/passkey"}, true, "an authenticator"},
		{[]string{"internal/attest/attesttest"}, []string{"internal/passkey/passkeytest"}, true, "samples are answered with passkeys too"},
		{[]string{"internal/cli/*test"}, []string{"internal/cli/*test"}, true, "samples of the command's parts fit together"},
		{
			[]string{"internal/cli/stagetest"},
			[]string{"internal/rpc/**", "internal/access", "internal/identity", "internal/store/**"},
			true, "a stage is a daemon that pretends: real doors and real people",
		},
		{[]string{"**"}, support, false, "what only tests use is no part of the product"},

		{words, []string{"internal/canon", "internal/subpath"}, true, "digests are made of canonical bytes; where a path lies is text"},
		{words, []string{"**"}, false, "the words know no part"},
		{small, small, true, "small tools may lean on each other"},
		{small, []string{"**"}, false, "a small tool uses the standard library only"},

		{
			[]string{"internal/effects"},
			append(slices.Clone(words), "internal/canon", "internal/symlink", "internal/trusted"), true,
			"the list of a run's changes, as bytes, and what it comes to",
		},
		{[]string{"internal/effects"}, []string{"**"}, false, "the list knows words only"},
		{
			append(slices.Clone(parts), "internal/tiers", "internal/undo", "internal/rpc/**", "client/**", "internal/cli/**"),
			[]string{"internal/effects"},
			true, "who makes and shows lists of changes",
		},

		{[]string{"secrets", "internal/commandagent"}, []string{".", "internal/subpath", "internal/pattern"}, true, "words of their own"},
		{[]string{"secrets", "internal/commandagent"}, []string{"**"}, false, "words know no part"},
		{
			slices.Concat(parts, storey, []string{"internal/rpc/**", "internal/tool/**"}),
			[]string{"internal/commandagent"},
			true,
			"whose commands an agent's name stands for",
		},
		{
			[]string{
				"internal/vault", "internal/rpc/**", "client/**", "internal/cli/**", "internal/egress/**", "internal/sandbox", "internal/tool/process",
				"internal/tool/fetch", "internal/provider", "internal/mcp/upstream", "internal/daemon", "internal/signing",
				"internal/tiers",
			},
			[]string{"secrets"},
			true, "what is told of secrets",
		},
		{
			[]string{"internal/skill"},
			[]string{".", "internal/canon", "internal/pattern", "internal/subpath"},
			true, "words of skills, and manifests read",
		},
		{[]string{"internal/skill"}, []string{"**"}, false, "words know no part"},
		{
			[]string{"internal/skill/archive", "internal/skill/project", "internal/skill/scaffold", "internal/skill/folder"},
			append([]string{".", "internal/skill", "internal/skill/archive"}, small...),
			true, "packages are made and checked without a daemon",
		},
		{
			[]string{"internal/skill/registry"},
			[]string{"internal/skill", "internal/skill/archive", "internal/wasm"},
			true, "packages are verified when they are taken in and each time they are loaded",
		},
		{
			[]string{"internal/skill/archive", "internal/skill/project", "internal/skill/scaffold", "internal/skill/folder"},
			[]string{"**"},
			false, "a skill's package knows no part",
		},
		{
			[]string{"internal/rpc/**", "client/**", "internal/audit", "internal/explain"},
			[]string{"internal/skill"},
			true, "what is told of skills",
		},
		{
			[]string{"internal/cli/skills"},
			[]string{"internal/skill", "internal/skill/archive", "internal/skill/project", "internal/skill/scaffold", "internal/skill/folder"},
			true, "skills are made and checked without a daemon",
		},
		{[]string{"internal/signing"}, []string{"internal/signing/*"}, true, "keys of both kinds, and the agent of a run"},
		{[]string{"internal/signing/sshagent", "internal/signing/gitssh"}, []string{"internal/signing/sshkey"}, true, "it signs with them"},
		{[]string{"internal/signing/openpgp"}, []string{"internal/signing/gpgagent"}, true, "it signs with keys that are there"},
		{[]string{"internal/signing/*"}, []string{"<parent>"}, false, "keys sign without a broker"},
		{[]string{"internal/vault"}, []string{"internal/vault/keeper"}, false, "a vault knows its keepers by what they do"},
		{[]string{"internal/vault/keeper"}, []string{"<parent>"}, false, "keys are kept without a vault"},

		{[]string{"api/**"}, []string{"api/**"}, true, "generated code"},
		{[]string{"internal/rpc/**", "client/**"}, []string{"api/gen/**"}, true, "wire types live at the doors and in the client"},
		{[]string{"**"}, []string{"api/**"}, false, "wire types stop at the doors and the client"},

		{[]string{"internal/store"}, []string{".", "internal/fault"}, true, "the store"},
		{[]string{"internal/store/*"}, []string{".", "internal/store"}, true, "an engine knows only the store"},
		{[]string{"internal/store/**"}, []string{"**"}, false, "the store knows no record"},

		{[]string{"internal/gate"}, words, true, "the path speaks in words"},
		{[]string{"internal/gate"}, []string{"**"}, false, "the path imports nothing of ours but the root"},

		{[]string{"internal/journal"}, []string{"internal/store/sqlite"}, true, "a copy of the state is checked without a daemon to open it"},
		{
			[]string{"internal/sandbox/confine", "internal/sandbox/bubble", "internal/sandbox/bare"},
			[]string{"internal/sandbox/cells", "internal/sandbox/local"},
			true,
			"tiers that start cells share how",
		},
		{
			[]string{
				"internal/sandbox/bare", "internal/sandbox/confine", "internal/sandbox/bubble", "internal/sandbox/cells",
				"internal/sandbox/template",
			},
			[]string{"internal/sandbox/refusal"},
			true, "they refuse in the same words",
		},
		{
			[]string{"internal/sandbox/bubble", "internal/sandbox/template"},
			[]string{"internal/sandbox/bwrap"},
			true, "the tier starts what bubblewrap is told",
		},
		{
			[]string{"internal/sandbox/bubble"},
			[]string{"internal/sandbox/template"},
			true, "the tier makes its rooms from templates",
		},
		{[]string{"internal/sandbox/bubble"}, []string{"internal/sandbox/reviews"}, true, "the tier keeps what is chosen of agents' work"},
		{[]string{"internal/sandbox/bwrap"}, []string{"internal/sandbox/local"}, true, "what of /opt and /usr/local a room shows"},
		{
			[]string{"internal/sandbox/template", "internal/sandbox/refusal"},
			[]string{"<parent>"},
			false, "templates are kept without the driver",
		},
		{[]string{"internal/sandbox/bwrap"}, []string{"<parent>"}, false, "bubblewrap is told without the driver"},
		{
			[]string{"internal/sandbox", "internal/sandbox/bubble", "internal/sandbox/bwrap"},
			[]string{"internal/sandbox/cage"},
			true, "what holds a script of a skill",
		},
		{[]string{"internal/sandbox/cage"}, []string{"<parent>"}, false, "cages are drawn without a run"},
		{[]string{"internal/sandbox"}, []string{"internal/sandbox/cachedir"}, true, "directories that runs may write"},
		{[]string{"internal/sandbox"}, []string{"internal/sandbox/hint"}, true, "what a program that failed may have met"},
		{[]string{"internal/sandbox/hint"}, []string{"<parent>"}, false, "output is explained without a run"},
		{[]string{"internal/sandbox/cachedir"}, []string{"<parent>"}, false, "directories are made without a run"},
		{
			[]string{"internal/sandbox/bubble", "internal/sandbox/seatbelt", "internal/profile"},
			[]string{"internal/seal", "internal/seal/*"},
			true, "what a run must leave as it is",
		},
		{[]string{"internal/egress"}, []string{"internal/egress/sniff"}, true, "the first bytes of a connection"},
		{[]string{"internal/egress", "internal/tiers"}, []string{"internal/egress/lend"}, true, "secrets go into what leaves"},
		{[]string{"internal/egress/lend"}, []string{"<parent>"}, false, "requests are changed without the guard"},
		{[]string{"internal/egress/lend"}, []string{"internal/egress/sigv4"}, true, "what programs signed is signed again"},
		{[]string{"internal/egress/sigv4"}, []string{"<parent>"}, false, "signatures are made without the guard"},
		{[]string{"internal/egress/sniff"}, []string{"<parent>"}, false, "bytes are read without the guard"},
		{[]string{"internal/seal"}, []string{"internal/seal/sealname"}, true, "which paths are sealed, by their names"},
		{[]string{"internal/seal/sealname"}, []string{"<parent>"}, false, "names are read without a workspace"},
		{[]string{"internal/seal"}, []string{"internal/seal/owngit"}, true, "git's configuration outside of a workspace"},
		{[]string{"internal/seal/owngit"}, []string{"<parent>"}, false, "configuration is read without a workspace"},
		{[]string{"internal/pairing"}, []string{"internal/pairing/cpace"}, true, "the exchange behind a PIN"},
		{[]string{"internal/pairing/cpace"}, []string{"**"}, false, "the exchange knows nothing of ours"},
		{
			[]string{"internal/policy", "internal/policy/replay"},
			[]string{"internal/policy/risk"},
			true,
			"what a call amounts to is worked out below the judging",
		},
		{[]string{"internal/policy"}, []string{"internal/policy/premise"}, true, "policies that cannot match are left out below the judging"},
		{[]string{"internal/policy"}, []string{"internal/policy/entity"}, true, "entities are made below the judging"},
		{[]string{"internal/policy/entity"}, []string{"."}, true, "entities are made of the words"},
		{[]string{"internal/policy/entity"}, []string{"**"}, false, "entities are made of the words"},
		{[]string{"internal/policy"}, []string{"internal/policy/resource"}, true, "what is known of what actions are about"},
		{[]string{"internal/policy/resource"}, []string{"."}, true, "plans"},
		{[]string{"internal/policy/premise"}, []string{"**"}, false, "tests of conditions know nothing of ours"},
		{[]string{"internal/tool/files"}, []string{"internal/tool/files/unified"}, true, "patches as text"},
		{[]string{"internal/tool/files/unified"}, []string{"."}, true, "patches as text"},
		{[]string{"internal/skill/**"}, []string{"internal/wasm"}, true, "skills are modules, in the runtime's words"},
		{leavesOf(parts), []string{"<parent>"}, true, "a leaf imports its parent"},
		{append(slices.Clone(parts), leavesOf(parts)...), append([]string{".", "internal/store"}, small...), true, "a part"},
		{append(slices.Clone(parts), leavesOf(parts)...), []string{"**"}, false, "parts never import each other, nor anything above"},

		{[]string{"internal/agent"}, append([]string{".", "internal/run"}, small...), true, "the loop stands on runs"},
		{[]string{"internal/agent/*"}, append([]string{".", "internal/agent"}, small...), true, "a provider knows the loop only"},
		{[]string{"internal/agent/**"}, []string{"**"}, false, "the loop knows no part"},

		{
			[]string{"internal/run"},
			append([]string{
				".", "internal/store", "internal/gate", "internal/run/tapeline", "internal/run/calllog", "internal/run/background",
				"internal/run/dailybytes", "internal/run/keptline", "internal/run/budget",
			}, small...), true,
			"runs stand on the gate",
		},
		{[]string{"internal/run/tapeline"}, []string{".", "internal/ulid"}, true, "calls in the words of a tape"},
		{[]string{"internal/run/calllog"}, []string{"."}, true, "what followers of a call hear"},
		{[]string{"internal/run/keptline"}, words, true, "digests in lines"},
		{[]string{"internal/run/dailybytes"}, []string{"."}, true, "what calls keep on a day"},
		{[]string{"internal/run/budget"}, []string{"."}, true, "calls of a run are counted"},
		{[]string{"internal/run/background"}, words, true, "calls that go on, in root words"},
		{[]string{"internal/run"}, []string{"**"}, false, "runs stand on the gate and know no part"},

		{[]string{"internal/provider"}, []string{"internal/agent"}, true, "providers are sources of the loop's models"},
		{[]string{"internal/enrol"}, []string{"internal/tool/device"}, true, "a machine is asked about as a call of its own tool"},
		{
			[]string{"internal/tiers"},
			[]string{"internal/tool/process", "internal/tool/fetch"},
			true,
			"the tool that plans for the tiers, and the one that goes out by their guard",
		},
		{[]string{"internal/tiers"}, []string{"internal/skill", "internal/sandbox/cage"}, true, "scripts of skills run in the tiers, in cages"},
		{[]string{"internal/tiers"}, []string{"internal/seal/*"}, true, "what a run did to names that others trust, by links and by git"},
		{storey, storey, false, "what stands on the parts does not stand on each other"},
		{[]string{"internal/bundle", "internal/past"}, []string{"internal/policy/*"}, true, "bundles are tested, kept and replayed"},
		{
			storey, append(append(slices.Clone(parts), ".", "internal/store", "internal/run", "internal/config", "internal/rpc/wire"), small...),
			true, "several parts together",
		},
		{storey, []string{"**"}, false, "what stands on the parts knows no door and no leaf"},

		{
			[]string{"internal/config/**"},
			append([]string{".", "internal/config/home"}, small...), true,
			"configuration is read before anything exists",
		},
		{[]string{"internal/config/**"}, []string{"**"}, false, "configuration knows no part"},

		{[]string{"internal/rpc/**"}, append([]string{".", "internal/rpc/**"}, small...), true, "a door"},
		{[]string{"internal/rpc/**"}, []string{"**"}, false, "a door knows the parts only by interfaces of its own"},

		{
			[]string{"client/**"},
			append([]string{".", "client/**", "internal/rpc/wire"}, small...), true,
			"the client shares the words' wire form with the doors",
		},
		{[]string{"client/evidence"}, []string{
			"internal/journal", "internal/attest", "internal/approval", "internal/audit", "internal/keyring",
			"internal/posture",
		}, true, "evidence is checked without a daemon"},
		{[]string{"client"}, []string{"internal/identity"}, true, "the client makes an operator's key file and signs with it"},
		{[]string{"client/bundle"}, []string{"internal/policy"}, true, "presets are written out without a daemon"},
		{[]string{"client"}, []string{"internal/ca", "internal/pairing"}, true, "a device joins a daemon and knows it again"},
		{[]string{"client/**"}, []string{"**"}, false, "the client knows no part"},

		{[]string{"internal/mcp/serve"}, append([]string{".", "client"}, small...), true, "MCP clients are served by a client of the daemon"},
		{[]string{"internal/mcp/install"}, append([]string{"."}, small...), true, "configurations of other programs"},
		{
			[]string{"internal/mcp/serve", "internal/mcp/install"},
			[]string{"**"},
			false,
			"what serves MCP clients is a client itself and knows no part",
		},
		{
			[]string{"internal/cli/**"},
			[]string{"internal/mcp/serve", "internal/mcp/install"},
			true,
			"the command serves and connects MCP clients",
		},
		{[]string{"internal/hook"}, []string{"**"}, false, "what is known of other agents needs nothing of ours"},
		{[]string{"internal/cli/**"}, []string{"internal/hook"}, true, "the command answers the hooks of other agents"},
		{[]string{"internal/cli/doctor"}, []string{"internal/standin"}, true, "agents are driven by a model that is made up"},
		{[]string{"internal/cli/hook"}, []string{"internal/dotenv", "internal/pattern"}, true, "what has secrets in it is not sent to be judged"},
		{
			[]string{"internal/cli/policy"},
			[]string{"internal/policy/tables", "internal/command"},
			true,
			"a bundle's tests are run without a daemon",
		},
		{[]string{"internal/cli/notify"}, []string{"internal/sessionbus"}, true, "a desktop is told over its bus"},
		{[]string{"internal/cli/**"}, []string{"internal/profile"}, true, "toolchains are looked for and profiles shown without a daemon"},
		{[]string{"internal/cli"}, []string{"internal/passkey"}, true, "where a browser was paired says what its key may"},
		{[]string{"internal/cli"}, []string{"internal/dotenv"}, true, "a file's secrets are read where the file is"},
		{
			[]string{"internal/cli/quick"},
			[]string{"client/**", "internal/config", "internal/cli/invocation", "internal/cli/execute", "internal/cli/screen"},
			false,
			"what it links is what it costs to start",
		},
		{[]string{"internal/cli/**"}, []string{
			".", "client/**", "internal/cli/**", "internal/config/**", "internal/hostport", "internal/show", "internal/durable",
			"internal/subpath",
		}, true, "a command speaks through the client"},
		{[]string{"internal/cli/**"}, []string{"**"}, false, "a command speaks through the client"},

		{[]string{"internal/daemon"}, []string{"internal/cli/**"}, false, "the daemon knows no command"},
		{[]string{"internal/daemon"}, []string{"**"}, true, "the daemon wires everything"},
		{
			[]string{"cmd/palyrad"},
			[]string{".", "internal/daemon", "internal/config", "internal/heaptrim", "internal/mask", "internal/nocore"},
			true, "a thin main",
		},
		{[]string{"cmd/palyra"}, []string{".", "internal/cli/quick", "internal/show"}, true, "a thin main, of what starts fast"},
		{[]string{"cmd/palyra-full"}, []string{".", "internal/cli"}, true, "a thin main"},
		{[]string{"cmd/palyra-tui"}, []string{"internal/cli/tui/program"}, true, "a thin main, without the other commands"},
		{[]string{"bench/**"}, []string{"**"}, true, "benchmarks reach everywhere"},
	}
}

func leavesOf(dirs []string) []string {
	var out []string
	for _, d := range dirs {
		out = append(out, d+"/*")
	}
	return out
}

func fits(patterns []string, dir, from string) bool {
	for _, p := range patterns {
		switch p {
		case "**":
			return true
		case "<parent>":
			if i := strings.LastIndex(from, "/"); i > 0 && from[:i] == dir {
				return true
			}
		default:
			if matches(p, dir) {
				return true
			}
		}
	}
	return false
}

// mayImport looks an import up in the table.
func mayImport(from, to string) (bool, string) {
	for _, e := range edges() {
		if fits(e.from, from, from) && fits(e.to, to, from) {
			return e.may, e.why
		}
	}
	return false, "no rule names it: give it a place in internal/layers"
}

// ours returns the directory of an import path of this module.
func ours(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

func imports(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		for _, imp := range slices.Sorted(maps.Keys(f.imports())) {
			to, our := ours(imp)
			if !our || to == f.dir {
				continue
			}
			if ok, why := mayImport(f.dir, to); !ok {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", f.name, imp, why))
			}
		}
	}
	return bad
}

// depth is the longest chain of imports within the tree.
func depth(t *tree) []string {
	const most = 8
	next := map[string][]string{}
	for _, f := range t.code() {
		for imp := range f.imports() {
			if to, our := ours(imp); our {
				next[f.dir] = append(next[f.dir], to)
			}
		}
	}
	known := map[string][]string{}
	var chain func(string) []string
	chain = func(dir string) []string {
		if c, ok := known[dir]; ok {
			return c
		}
		known[dir] = []string{dir} // a loop is the compiler's to refuse
		var longest []string
		for _, n := range next[dir] {
			if c := chain(n); len(c) > len(longest) {
				longest = c
			}
		}
		known[dir] = append([]string{dir}, longest...)
		return known[dir]
	}
	var bad []string
	for _, dir := range slices.Sorted(maps.Keys(next)) {
		if c := chain(dir); len(c) > most {
			bad = append(bad, fmt.Sprintf("%d packages deep: %s", len(c), strings.Join(c, " → ")))
		}
	}
	return bad
}

func TestImports(t *testing.T)     { hold(t, imports) }
func TestImportDepth(t *testing.T) { hold(t, depth) }

func TestImportsFires(t *testing.T) {
	imp := func(from, to string) map[string]string {
		return map[string]string{from + "/x.go": "package x\n\nimport _ \"" + to + "\"\n"}
	}
	refused := [][2]string{
		{"internal/approval", "palyra/internal/journal"},
		{"internal/approval", "palyra/internal/gate"},
		{"internal/approval", "palyra/internal/store/sqlite"},
		{"internal/tool/files", "palyra/internal/tool/basic"},
		{"internal/tool/files", "palyra/internal/workspace"},
		{"internal/tool", "palyra/internal/tool/files"},
		{"internal/gate", "palyra/internal/store"},
		{"internal/gate", "palyra/internal/canon"},
		{"internal/run", "palyra/internal/approval"},
		{"internal/canon", "palyra"},
		{"internal/store", "palyra/internal/journal"},
		{"internal/store/sqlite", "palyra/internal/journal"},
		{"internal/rpc/tools", "palyra/internal/catalog"},
		{"internal/journal", "palyra/api/gen/palyra/v1"},
		{"internal/cli", "palyra/api/gen/palyra/v1"},
		{"internal/cli", "palyra/internal/daemon"},
		{"internal/cli", "palyra/internal/store"},
		{"internal/cli", "palyra/internal/journal"},
		{"internal/cli", "palyra/internal/attest"},
		{"internal/cli", "palyra/internal/approval"},
		{"internal/cli", "palyra/internal/keyring"},
		{"internal/cli", "palyra/internal/identity"},
		{"internal/cli", "palyra/internal/canon"},
		{"client", "palyra/internal/rpc"},
		{"client", "palyra/internal/store"},
		{"client", "palyra/internal/journal"},
		{"client/evidence", "palyra/internal/identity"},
		{"client/evidence", "palyra/internal/policy"},
		{"internal/daemon", "palyra/internal/cli"},
		{"internal/journal", "palyra/cmd/palyrad"},
		{"cmd/palyra-verify", "palyra"},
		{"cmd/palyra-cell", "palyra/internal/canon"},
		{"cmd/palyrad", "palyra/internal/cli"},
		{"internal/sandbox", "palyra/internal/tool"},
		{"internal/sandbox/confine", "palyra/internal/tool"},
		{"internal/sandbox", "palyra/internal/sandbox/confine"},
		{"internal/tool/process", "palyra/internal/sandbox"},
		{"internal/run", "palyra/internal/agent"},
		{"internal/agent/scripted", "palyra/internal/run"},
		{"internal/agent", "palyra/internal/gate"},
		{"internal/cell", "palyra"},
		{"cmd/palyra", "palyra/internal/daemon"},
		{"internal/novelty", "palyra"},
		{"internal/config", "palyra/internal/policy"},
		{"internal/owner", "palyra"},
		{"internal/trusted", "palyra"},
		{"internal/policy", "palyra/internal/seal"},
		{"internal/sandbox/seatbelt", "palyra/internal/sandbox/cells"},
		{"internal/sandbox/confine", "palyra/internal/sandbox/celltest"},
		{"internal/daemon", "palyra/internal/sandbox/celltest"},
		{"internal/bundle", "palyra/internal/past"},
		{"internal/past", "palyra/internal/bundle"},
		{"internal/bundle", "palyra/internal/rpc"},
		{"internal/bundle", "palyra/internal/daemon"},
		{"internal/past", "palyra/internal/store/sqlite"},
		{"internal/policy", "palyra/internal/bundle"},
		{"internal/sandbox/bwrap", "palyra/internal/sandbox"},
		{"internal/sandbox/bwrap", "palyra/internal/sandbox/bubble"},
		{"internal/rpc/policy", "palyra/internal/past"},
	}
	var plants []plant
	for _, r := range refused {
		plants = append(plants, plant{r[0] + " → " + r[1], imp(r[0], r[1]), []string{r[1]}})
	}
	for _, r := range [][2]string{
		{"cmd/palyra-cell", "palyra/internal/cell"},
		{"internal/seal", "palyra/internal/owner"},
		{"internal/seal", "palyra/internal/trusted"},
		{"internal/policy", "palyra/internal/trusted"},
		{"internal/sandbox/bubble", "palyra/internal/owner"},
		{"internal/sandbox/bubble", "palyra/internal/sandbox/bwrap"},
		{"internal/sandbox/bwrap", "palyra/internal/sandbox/local"},
		{"internal/sandbox/seatbelt", "palyra/internal/seal"},
		{"internal/sandbox/celltest", "palyra/internal/sandbox"},
		{"internal/sandbox/confine", "palyra/internal/sandbox"},
		{"internal/sandbox/confine", "palyra/internal/cell"},
		{"internal/agent", "palyra/internal/run"},
		{"internal/agent/scripted", "palyra/internal/agent"},
		{"internal/approval", "palyra"},
		{"internal/approval", "palyra/internal/store"},
		{"internal/approval", "palyra/internal/canon"},
		{"internal/tool/files", "palyra/internal/tool"},
		{"internal/run", "palyra/internal/gate"},
		{"internal/gate", "palyra"},
		{"internal/rpc/tools", "palyra/api/gen/palyra/v1"},
		{"internal/rpc/tools", "palyra/internal/rpc"},
		{"client", "palyra/api/gen/palyra/v1"},
		{"internal/daemon", "palyra/internal/store/sqlite"},
		{"internal/cli", "palyra/client"},
		{"internal/cli", "palyra/client/evidence"},
		{"internal/cli", "palyra/internal/durable"},
		{"client", "palyra/internal/identity"},
		{"client/evidence", "palyra/internal/journal"},
		{"internal/past", "palyra/internal/run"},
		{"internal/bundle", "palyra/internal/policy"},
	} {
		plants = append(plants, plant{r[0] + " → " + r[1], imp(r[0], r[1]), nil})
	}
	plants = append(plants,
		one("the words import a part", "x.go", "package palyra\n\nimport _ \"palyra/internal/store\"\n", "the words know no part"),
		one("a test may reach over", "internal/approval/x_test.go", "package approval\n\nimport _ \"palyra/internal/journal\"\n"),
	)
	fires(t, imports, plants...)
}

func TestImportDepthFires(t *testing.T) {
	files := map[string]string{"p10/x.go": "package p\n"}
	for i := range 10 {
		files[fmt.Sprintf("p%d/x.go", i)] = fmt.Sprintf("package p\n\nimport _ \"palyra/p%d\"\n", i+1)
	}
	fires(t, depth, plant{"eleven deep", files, []string{"11 packages deep", "10 packages deep", "9 packages deep"}})
}
