package palyra_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"palyra"
)

func TestDigestValid(t *testing.T) {
	good := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	if !palyra.Digest(good).Valid() {
		t.Errorf("%s refused", good)
	}
	if !palyra.SumBytes([]byte("x")).Valid() {
		t.Error("SumBytes makes a digest that is not valid")
	}
	for _, bad := range []string{
		"", "sha256:", good[7:], good + "0", good[:len(good)-1], strings.ToUpper(good), "sha256:" + strings.ToUpper(good[7:]),
		"sha512" + good[6:], good[:len(good)-1] + "g", " " + good, good + "\n", "sha256:" + good, "SHA256" + good[6:],
		good[:len(good)-1] + "\x00", "sha256:" + strings.Repeat("٣", 32),
	} {
		if palyra.Digest(bad).Valid() {
			t.Errorf("%q accepted", bad)
		}
	}
}

func TestSumBytes(t *testing.T) {
	const empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := palyra.SumBytes(nil); got != empty {
		t.Errorf("SHA-256 of nothing is %s", got)
	}
}

func TestPrincipal(t *testing.T) {
	for _, c := range []struct {
		p          palyra.Principal
		kind, name string
		agent      bool
	}{
		{"user:alice", "user", "alice", false},
		{"agent:local", "agent", "local", true},
		{"device:phone:2", "device", "phone:2", false},
		{"system:daemon", "system", "daemon", false},
		{"", "", "", false},
		{"agent", "agent", "", true},
		{"Agent:x", "Agent", "x", false},
	} {
		if c.p.Kind() != c.kind || c.p.Name() != c.name || c.p.IsAgent() != c.agent {
			t.Errorf("%q: kind %q, name %q, agent %t", c.p, c.p.Kind(), c.p.Name(), c.p.IsAgent())
		}
	}
}

func TestTime(t *testing.T) {
	if got := palyra.Time(time.Time{}); got != "" {
		t.Errorf("no time prints as %q", got)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 80, time.FixedZone("east", 3600))
	if got := palyra.Time(at); got != "2026-03-04T04:06:07.00000008Z" {
		t.Errorf("got %s", got)
	}
}

func TestClip(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"", 4, ""},
		{"abcd", 4, "abcd"},
		{"abcdefgh", 7, "abcd..."},
		{"abcéfgh", 7, "abc..."}, // é does not fit whole
		{"\xff", 4, "\uFFFD"},
		{"a\x00b", 4, "a\x00b"}, // control characters are made visible where they are shown, not here
		{"abc", 0, ""},
	} {
		if got := palyra.Clip(c.in, c.n); got != c.want || len(got) > c.n {
			t.Errorf("Clip(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

// Property: the result is valid UTF-8, not longer than asked plus the mark, and
// text that needed no change is unchanged.
func FuzzClip(f *testing.F) {
	f.Add("héllo", 3)
	f.Add("\xf0\x9f\x98", 2)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		got := palyra.Clip(s, n)
		if !utf8.ValidString(got) {
			t.Fatalf("Clip(%q, %d) = %q is not UTF-8", s, n, got)
		}
		if len(got) > n+len("...") {
			t.Fatalf("Clip(%q, %d) has %d bytes", s, n, len(got))
		}
		if utf8.ValidString(s) && len(s) <= n && got != s {
			t.Fatalf("Clip(%q, %d) = %q", s, n, got)
		}
	})
}

func TestSensitive(t *testing.T) {
	for _, c := range []palyra.Capability{palyra.FilesystemRead, palyra.ArtifactsRead} {
		if c.Sensitive() {
			t.Errorf("%s is sensitive", c)
		}
	}
	for _, c := range []palyra.Capability{
		palyra.ProcessExec, palyra.Network, palyra.SecretsRead, palyra.FilesystemWrite, palyra.ChannelSend, palyra.Browser,
		palyra.NodeInvoke, "", "telepathy",
	} {
		if !c.Sensitive() {
			t.Errorf("%q is not sensitive: what we do not know must ask", c)
		}
		if !(palyra.Tool{Capabilities: []palyra.Capability{palyra.FilesystemRead, c}}).Sensitive() {
			t.Errorf("a tool with %q is not sensitive", c)
		}
	}
	if (palyra.Tool{}).Sensitive() {
		t.Error("a tool that touches nothing is sensitive")
	}
}

func TestSeparationRank(t *testing.T) {
	order := []palyra.Separation{palyra.SeparationNone, palyra.SeparationPassphrase, palyra.SeparationDevice, palyra.SeparationOtherUID}
	for i, s := range order {
		if s.Rank() != i {
			t.Errorf("%s ranks %d, want %d", s, s.Rank(), i)
		}
	}
	if palyra.Separation("titanium").Rank() != 0 || palyra.Separation("").Rank() != 0 {
		t.Error("an unknown separation ranks above none")
	}
}

func TestApprovalPending(t *testing.T) {
	var a palyra.Approval
	if !a.Pending() {
		t.Error("a question nobody answered is not pending")
	}
	for _, answer := range []palyra.Answer{palyra.AnswerAllow, palyra.AnswerDeny, palyra.AnswerTimeout, palyra.AnswerError} {
		a.Decision.Answer = answer
		if a.Pending() {
			t.Errorf("pending after %s", answer)
		}
	}
}

// declared returns every string constant of the named type in the package.
func declared(t *testing.T, typ string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, f := range sources(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if id, ok := v.Type.(*ast.Ident); ok && id.Name == typ {
				for i, n := range v.Names {
					lit, ok := v.Values[i].(*ast.BasicLit)
					if !ok {
						t.Fatalf("%s: %s is not a literal", name, n.Name)
					}
					s, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					found[n.Name] = s
				}
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatalf("no constants of type %s", typ)
	}
	return found
}

func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := goFiles()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*ast.File{}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files
}
