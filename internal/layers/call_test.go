package layers

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// ban forbids a name of a package, or the whole package when name is "*". A
// name ending in "*" is a prefix.
type ban struct {
	pkg, name string
	except    []string // directories where it is allowed
	why       string
}

// bans hold for code; those of testBans hold for tests as well.
var bans = []ban{
	{
		"os/exec", "*",
		[]string{"internal/sandbox/**", "internal/cli/**", "cmd/palyra-sign", "internal/vault/keeper"},
		"only a sandbox starts processes, 'palyra up' the daemon, the command its other half, palyra-sign git in its own room, " +
			"and a keeper macOS's own program for keys",
	},
	{"os", "StartProcess", []string{"internal/sandbox/**"}, "only a sandbox starts processes"},
	{"syscall", "ForkExec", nil, "only a sandbox starts processes"},
	{
		"syscall", "Exec",
		[]string{"internal/cli/quick", "cmd/palyra-sign"},
		"the command becomes the full one, and palyra-sign what checks signatures; else " +
			"only the cell becomes another program, by a system call of its own",
	},
	{
		"net", "Dial*",
		[]string{
			"client/**", "internal/egress", "internal/posture", "internal/sandbox/sandboxtest/probe", "internal/sessionbus",
			"internal/signing/sshkey", "internal/signing/gpgagent", "cmd/palyra-sign",
		},
		"nothing dials out but the client and the egress guard; posture tries its own planted listeners, the probe tries to get out, " +
			"the session's bus is spoken to and a key's ssh-agent or gpg-agent, sockets of this machine, and palyra-sign to the broker",
	},
	{"net/http", "Get", nil, "nothing dials out"},
	{"net/http", "Head", nil, "nothing dials out"},
	{"net/http", "Post*", nil, "nothing dials out"},
	{"net/http", "DefaultClient", nil, "nothing dials out"},
	{"net/http", "DefaultTransport", nil, "nothing dials out"},
	{"net/http", "DefaultServeMux", nil, "a door registers its own handlers"},
	{"net/http", "Handle", nil, "a door registers its own handlers"},
	{"net/http", "HandleFunc", nil, "a door registers its own handlers"},
	{
		"net/http", "Client",
		[]string{"client/**", "internal/mcp/upstream", "internal/push", "internal/webpush"},
		"nothing dials out but the client, and what stands on the guard",
	},
	{
		"net/http", "Transport",
		[]string{"client/**", "internal/tool/fetch", "internal/agent", "internal/mcp/upstream", "internal/egress/lend", "internal/push"},
		"nothing dials out but the client, and what stands on the guard",
	},
	{"net/http/pprof", "*", nil, "it opens a door by being imported"},
	{"expvar", "*", nil, "it opens a door by being imported"},
	{"time", "Sleep", nil, "wait for an event or a timer that a context ends"},
	{"time", "Tick", nil, "wait for a timer that a context ends"},
	{"log", "*", nil, "log/slog is the one logger"},
	{"os", "Exit", []string{"cmd/*"}, "only a main ends the program"},
	{"fmt", "Print*", nil, "write to the writer you were given"},
	{"context", "TODO", nil, "decide whose context it is"},
	{"math/rand", "*", nil, "use crypto/rand"},
	{"math/rand/v2", "*", nil, "use crypto/rand"},
	{"crypto/md5", "*", nil, "broken"},
	{
		"crypto/sha1", "*",
		[]string{"internal/gitrepo", "internal/gitobject", "internal/signing/sshkey"},
		"broken, though git calls its objects by it, and known_hosts its servers",
	},
	{"crypto/des", "*", nil, "broken"},
	{"crypto/rc4", "*", nil, "broken"},
	{
		"unsafe", "*",
		[]string{
			"internal/cell/first", "internal/cell/probe", "internal/cell/ruleset", "internal/publish", "internal/sandbox/jobobject",
			"internal/vault/keeper",
		},
		"only the cell and the Windows calls that x/sys lacks, or answers by address, make raw system calls",
	},
	{"plugin", "*", nil, "code comes in by a skill, not by a plugin"},
	{"C", "*", nil, "no cgo"},
	{"io/ioutil", "*", nil, "gone since Go 1.16"},
	{"palyra/internal/agefile", "Cheapen", nil, "a passphrase is guessed at cheaply in tests only"},
	{"encoding/gob", "*", nil, "canon is the one encoding"},
}

// panics are the places that may panic, each for a reason said there.
var panics = map[string]string{
	"internal/gate/walk.go":            "a move that the state table does not know is a defect of the gate",
	"cmd/palyra-verify/attestation.go": "the checker stops at the first finding; its one entry turns that into a refusal",
	"internal/trusted/table.go":        "without its list nothing would be held: a broken table is a defect that a test finds",
	"internal/config/setting.go":       "a setting without a field is a defect of the table, which a test finds",
}

// calls finds banned imports and names in code.
func calls(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		if f.suite() {
			continue
		}
		names := f.imports()
		for _, b := range bans {
			name, imported := names[b.pkg]
			if !imported || matchesAny(b.except, f.dir) {
				continue
			}
			if b.name == "*" {
				bad = append(bad, fmt.Sprintf("%s imports %s: %s", f.name, b.pkg, b.why))
				continue
			}
			for _, n := range uses(f, name, b.name) {
				bad = append(bad, fmt.Sprintf("%s uses %s.%s: %s", t.where(f, n), b.pkg, n.Sel.Name, b.why))
			}
		}
	}
	return bad
}

// uses returns every selector pkg.name in f.
func uses(f *file, pkg, name string) []*ast.SelectorExpr {
	var found []*ast.SelectorExpr
	ast.Inspect(f.ast, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := s.X.(*ast.Ident); ok && id.Name == pkg {
			prefix, star := strings.CutSuffix(name, "*")
			if s.Sel.Name == name || (star && strings.HasPrefix(s.Sel.Name, prefix)) {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}

// builtins finds panic, print and println.
func builtins(t *tree) []string {
	var bad []string
	for _, f := range t.code() {
		if f.suite() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			id, ok := c.Fun.(*ast.Ident)
			if !ok {
				return true
			}
			switch id.Name {
			case "panic":
				if panics[f.name] == "" {
					bad = append(bad, t.where(f, c)+" panics: return an error, or give the place a reason in internal/layers")
				}
			case "print", "println":
				bad = append(bad, t.where(f, c)+" prints: write to the writer you were given")
			}
			return true
		})
	}
	return bad
}

// inits finds init functions: what happens, happens because someone called it.
func inits(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		if f.generated {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				bad = append(bad, t.where(f, fn)+" has an init")
			}
		}
	}
	return bad
}

// skips finds tests that do not test. What a kernel cannot do is printed as
// UNPROVEN HERE with its reason and stands in docs/unproven.md. Slow tests may
// pass with -short, which 'make test' does not set.
func skips(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		if !f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if i, ok := n.(*ast.IfStmt); ok && isShort(i.Cond) {
				return false
			}
			c, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := c.Fun.(*ast.SelectorExpr)
			if !ok || (s.Sel.Name != "Skip" && s.Sel.Name != "Skipf" && s.Sel.Name != "SkipNow") {
				return true
			}
			if id, ok := s.X.(*ast.Ident); !ok || (id.Name != "t" && id.Name != "tb" && id.Name != "f") {
				return true
			}
			if !saysUnproven(c) {
				bad = append(bad, t.where(f, c)+" skips without saying UNPROVEN HERE and why")
			}
			return true
		})
	}
	return bad
}

func isShort(cond ast.Expr) bool {
	c, ok := cond.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Short"
}

func saysUnproven(c *ast.CallExpr) bool {
	if len(c.Args) == 0 {
		return false
	}
	first := c.Args[0]
	for sum, ok := first.(*ast.BinaryExpr); ok; sum, ok = first.(*ast.BinaryExpr) {
		first = sum.X
	}
	lit, ok := first.(*ast.BasicLit)
	return ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value[1:], "UNPROVEN HERE: ")
}

// sleeps finds tests that sleep in real time. Inside a synctest bubble a sleep
// costs nothing and is exact.
func sleeps(t *tree) []string {
	var bad []string
	for _, f := range t.files {
		names := f.imports()
		if _, bubble := names["testing/synctest"]; !f.test || bubble || names["time"] == "" {
			continue
		}
		for _, n := range uses(f, names["time"], "Sleep") {
			bad = append(bad, t.where(f, n)+" sleeps: wait for an event, or use testing/synctest")
		}
	}
	return bad
}

func TestCalls(t *testing.T)    { hold(t, calls) }
func TestBuiltins(t *testing.T) { hold(t, builtins) }
func TestInits(t *testing.T)    { hold(t, inits) }
func TestSkips(t *testing.T)    { hold(t, skips) }
func TestSleeps(t *testing.T)   { hold(t, sleeps) }

func TestCallsFires(t *testing.T) {
	body := func(imp, stmt string) string {
		return "package x\n\nimport \"" + imp + "\"\n\nfunc f() {\n\t" + stmt + "\n}\n"
	}
	fires(t, calls,
		one("a process", "internal/journal/x.go", body("os/exec", "exec.Command(`x`)"), "only a sandbox starts processes"),
		one("a sandbox", "internal/sandbox/bwrap/x.go", body("os/exec", "exec.Command(`x`)")),
		one("a dial", "internal/rpc/x.go", body("net", "net.DialTimeout(``, ``, 0)"), "net.DialTimeout"),
		one("a dialer", "internal/rpc/x.go", body("net", "_ = net.Dialer{}"), "net.Dialer"),
		one("the client dials", "client/x.go", body("net", "net.Dial(``, ``)")),
		one("listening is not dialling", "internal/rpc/x.go", body("net", "net.Listen(``, ``)")),
		one("http", "internal/rpc/x.go", body("net/http", "http.Get(``); _ = http.DefaultClient"), "http.Get", "http.DefaultClient"),
		one("http by another name", "internal/rpc/x.go", "package x\n\nimport web \"net/http\"\n\nvar _ = web.PostForm\n", "http.PostForm"),
		one("a sleep", "internal/run/x.go", body("time", "time.Sleep(1)"), "time.Sleep"),
		one("a fatal log", "internal/run/x.go", body("log", "log.Fatal(1)"), "log/slog"),
		one("an exit", "internal/cli/x.go", body("os", "os.Exit(1)"), "only a main"),
		one("an exit of a main", "cmd/palyra/x.go", body("os", "os.Exit(1)")),
		one("a print", "internal/cli/x.go", body("fmt", "fmt.Println(1)"), "fmt.Println"),
		one("Fprint is fine", "internal/cli/x.go", body("fmt", "fmt.Fprintln(nil)")),
		one("weak randomness", "internal/cli/x.go", "package x\n\nimport _ \"math/rand/v2\"\n", "crypto/rand"),
		one("a suite", "internal/attest/attesttest/x.go", "package x\n\nimport _ \"math/rand/v2\"\n"),
		one("unsafe", "internal/cli/x.go", "package x\n\nimport _ \"unsafe\"\n", "unsafe"),
		one("a test may sleep, by this rule", "internal/run/x_test.go", body("time", "time.Sleep(1)")),
	)
}

func TestBuiltinsFires(t *testing.T) {
	fires(t, builtins,
		one("a panic", "internal/run/x.go", "package x\n\nfunc f() { panic(1) }\n", "panics"),
		one("a println", "internal/run/x.go", "package x\n\nfunc f() { println(1) }\n", "prints"),
		one("the gate's panic", "internal/gate/walk.go", "package gate\n\nfunc f() { panic(1) }\n"),
		one("a method of that name", "internal/run/x.go", "package x\n\nfunc f(x interface{ panic() }) { x.panic() }\n"),
	)
}

func TestInitsFires(t *testing.T) {
	fires(t, inits,
		one("an init", "internal/run/x.go", "package x\n\nfunc init() {}\n", "has an init"),
		one("an init in a test", "internal/run/x_test.go", "package x\n\nfunc init() {}\n", "has an init"),
		one("a method", "internal/run/x.go", "package x\n\ntype t int\n\nfunc (t) init() {}\n"),
		one("generated", "api/gen/x.go", "// Code generated by x. DO NOT EDIT.\n\npackage x\n\nfunc init() {}\n"),
	)
}

func TestSkipsFires(t *testing.T) {
	test := func(stmt string) string {
		return "package x\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { " + stmt + " }\n"
	}
	fires(t, skips,
		one("a bare skip", "x/x_test.go", test("t.SkipNow()"), "UNPROVEN"),
		one("a lazy skip", "x/x_test.go", test("t.Skip(`slow`)"), "UNPROVEN"),
		one("an honest one", "x/x_test.go", test("t.Skipf(`UNPROVEN HERE: %s`, `no cgroup`)")),
		one("a slow test", "x/x_test.go", test("if testing.Short() { t.Skip(`slow`) }")),
		one("not a test's", "x/x_test.go", test("var it iterator; it.Skip()")),
	)
}

func TestSleepsFires(t *testing.T) {
	fires(t, sleeps,
		one("a sleep", "x/x_test.go", "package x\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n", "sleeps"),
		one("in a bubble", "x/x_test.go",
			"package x\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nvar _ = synctest.Test\n\nfunc f() { time.Sleep(1) }\n"),
	)
}

// A reason for a place that no longer panics is a licence lying about.
func TestEveryPanicIsStillThere(t *testing.T) {
	hold(t, func(t *tree) []string {
		var bad []string
		for name := range panics {
			found := false
			for _, f := range t.code() {
				found = found || (f.name == name && strings.Contains(string(f.src), "panic("))
			}
			if !found {
				bad = append(bad, name+" is allowed to panic and does not")
			}
		}
		return bad
	})
}

// staleExceptions finds directories where a ban has an exception and nothing that it forbids.
func staleExceptions(t *tree) []string {
	var bad []string
	for _, b := range bans {
		for _, dir := range b.except {
			used := slices.ContainsFunc(t.code(), func(f *file) bool {
				name, imported := f.imports()[b.pkg]
				return imported && matches(dir, f.dir) && (b.name == "*" || len(uses(f, name, b.name)) > 0)
			})
			if !used {
				bad = append(bad, fmt.Sprintf("%s: no %s.%s any more: take the exception off the list", dir, b.pkg, b.name))
			}
		}
	}
	return bad
}

func TestExceptionsAreUsed(t *testing.T) {
	hold(t, staleExceptions)
	all := staleExceptions(&tree{})
	if n := len(slices.Concat(exceptionsOf(bans)...)); len(all) != n {
		t.Errorf("%d of %d exceptions are stale where there is no code", len(all), n)
	}
}

func exceptionsOf(all []ban) (out [][]string) {
	for _, b := range all {
		out = append(out, b.except)
	}
	return out
}
