package toolname_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"palyra/internal/toolname"
)

var form = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func TestEncode(t *testing.T) {
	long := "mcp." + strings.Repeat("x", 100)
	for name, want := range map[string]string{
		"palyra.fs.read": "palyra_fs_read", "mcp.git-hub.list": "mcp_git-hub_list", "echo": "echo",
		strings.Repeat("a", 64): strings.Repeat("a", 64),
	} {
		if got := toolname.Encode(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"", long, "ü.\x00", strings.Repeat("a.", 40)} {
		if got := toolname.Encode(name); !form.MatchString(got) {
			t.Errorf("%q: %q is no name for models", name, got)
		}
	}
	if toolname.Encode(long) == toolname.Encode(long+"y") {
		t.Error("two long names have become one")
	}
}

// TestTableKeepsNamesApart: two tools that would have one name get one each, and
// neither takes the plain one, so that none can pass for the other.
func TestTableKeepsNamesApart(t *testing.T) {
	m := toolname.Table([]string{"mcp.a.b_c", "mcp.a_b.c", "palyra.echo", "palyra.echo"})
	one, _ := m.Encode("mcp.a.b_c")
	two, _ := m.Encode("mcp.a_b.c")
	if one == two || one == "mcp_a_b_c" || two == "mcp_a_b_c" {
		t.Errorf("%s and %s", one, two)
	}
	if got, ok := m.Encode("palyra.echo"); got != "palyra_echo" || !ok {
		t.Errorf("palyra.echo is %q", got)
	}
	if _, ok := m.Decode("mcp_a_b_c"); ok {
		t.Error("an unclear name means a tool")
	}
	if _, ok := m.Encode("other"); ok {
		t.Error("a tool that is not in the catalog has a name")
	}
}

func TestTableIsInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-c._-]{1,4}|[a-b._]{60,70}`), 0, 40).Draw(t, "names")
		m := toolname.Table(names)
		seen := map[string]string{}
		for _, n := range names {
			code, ok := m.Encode(n)
			if !ok || !form.MatchString(code) {
				t.Fatalf("%q: %q, %v", n, code, ok)
			}
			if other, taken := seen[code]; taken && other != n {
				t.Fatalf("%q and %q are both %q", n, other, code)
			}
			seen[code] = n
			if back, _ := m.Decode(code); back != n {
				t.Fatalf("%q comes back as %q", n, back)
			}
		}
	})
}

// The digest is short, and whoever names tools can look for two that meet: 36 bits
// take a moment. Which of them a model means nobody knows, so it means neither.
func TestNamesMadeToMeet(t *testing.T) {
	first := map[string]string{}
	for i := 0; ; i++ {
		name := "mcp.server." + strings.Repeat("x", 60) + strconv.Itoa(i)
		code := toolname.Encode(name)
		other, met := first[code]
		if !met {
			first[code] = name
			continue
		}
		m := toolname.Table([]string{name, "palyra.fs.read", other})
		for _, n := range []string{name, other} {
			if got, ok := m.Encode(n); ok {
				t.Errorf("%s is %s", n, got)
			}
		}
		if got, ok := m.Decode(code); ok {
			t.Errorf("%s means %s", code, got)
		}
		if got, ok := m.Decode("palyra_fs_read"); !ok || got != "palyra.fs.read" {
			t.Errorf("another: %s", got)
		}
		return
	}
}

// One may be named as another is marked.
func TestNamesLikeMarks(t *testing.T) {
	like, _ := toolname.Table([]string{"a.b", "a_b"}).Encode("a.b")
	m := toolname.Table([]string{"a.b", "a_b", like})
	for _, n := range []string{"a.b", like} {
		if got, ok := m.Encode(n); ok {
			t.Errorf("%s is %s", n, got)
		}
	}
}
