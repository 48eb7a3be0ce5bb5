package gitfile

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfig(t *testing.T) {
	got, err := Config([]byte(
		"\xef\xbb\xbf# c\r\n[core]\n\thooksPath = scripts/hooks ; c\r\n\tbare\n fsmonitor = \"touch \\\"x\\\"; \"false # no\n" +
			"[include] path = ../.gitconfig\n[includeIf \"gitdir:/a \\\"b\"]\npath=a\\\nb\n[Diff.Lower]\nTextConv = 'x  y'\n[a]\nempty =\n"))
	want := []Setting{
		{"core", "", "hookspath", "scripts/hooks"},
		{"core", "", "bare", "true"},
		{"core", "", "fsmonitor", `touch "x"; false`},
		{"include", "", "path", "../.gitconfig"},
		{"includeif", `gitdir:/a "b`, "path", "ab"},
		{"diff", "lower", "textconv", "'x  y'"},
		{"a", "", "empty", ""},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	for _, bad := range []string{
		"x = 1", "[core", "[co re]", "[a]\nx = \"", "[a]\nx = \\q", "[a \"b]\n", "[a]\n\x00", "[a]\nx y", "]",
		"[a]\nx = a\x00b",
	} {
		if s, err := Config([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, s)
		}
	}
}

func TestReferences(t *testing.T) {
	set, err := Config([]byte("[core]\nhooksPath=h\nfsmonitor=./fs/mon --x\neditor=vi\n[include]\npath=../inc\n[diff " +
		"\"x\"]\ntextconv = python3 tools/conv.py\n[alias]\na = !sh ./bin/a; true\nb = log --x=y/z\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Reference{{Path: "h", Hooks: true}, {Path: "./fs/mon"}, {Path: "../inc", Include: true}, {Path: "tools/conv.py"}}
	if d := cmp.Diff(want, References(set)); d != "" {
		t.Error(d)
	}
}

func TestHarmless(t *testing.T) {
	const list = "pick 1 a\n# exec x\n\n  fixup -C 2 b\nlabel onto\nmerge -C 3 x # y\nupdate-ref refs/heads/x\nbreak\nnoop\n"
	own := [][]byte{[]byte("pick 1\nexec make test\nx make test\n"), []byte("pick 1\nexec make test\n")}
	for _, test := range []struct {
		name, text string
		before     [][]byte
		want       bool
	}{
		{"git-rebase-todo", list, nil, true},
		{"git-rebase-todo", list + "exec touch /tmp/x\n", nil, false},
		{"git-rebase-todo", list + " \tx touch /tmp/x", nil, false},
		{"git-rebase-todo", list + "\vexec touch /tmp/x", nil, false},
		{"git-rebase-todo", "pick\x00exec\n", nil, false},
		{"git-rebase-todo", "execute\n", nil, false},
		{"git-rebase-todo", "exec make test\npick 2\n", own, true},
		{"git-rebase-todo", "exec make test\nexec make test\n", own, false},
		{"git-rebase-todo", "exec make  test\n", own, false},
		{"todo", "revert 1 a\n", nil, true},
		{"todo", "exec a\n", nil, false},
		{"strategy", "ort\n", nil, true},
		{"strategy", "evil\n", nil, false},
		{"opts", "[options]\n\tstrategy = ort\n\tedit = true\n", nil, true},
		{"opts", "[options]\n\tstrategy = evil\n", nil, false},
		{"opts", "rubbish", nil, false},
		{"author-script", "GIT_AUTHOR_NAME='A O'\\''B'\nGIT_AUTHOR_EMAIL='a@b'\nGIT_AUTHOR_DATE='@1 +0000'\n", nil, true},
		{"author-script", "GIT_AUTHOR_NAME='A'; touch x\n", nil, false},
		{"author-script", "touch x\n", nil, false},
		{"author-script", "GIT_AUTHOR_NAME='A' 'B'\n", nil, false},
		{"message", "exec anything", nil, true},
	} {
		if got := Harmless(test.name, []byte(test.text), test.before); got != test.want {
			t.Errorf("%s %q: %v", test.name, test.text, got)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("[a \"b\"]\nc = \"d\\\ne\"\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		set, err := Config(b)
		if err == nil && slices.ContainsFunc(set, func(s Setting) bool { return s.Section == "" || s.Key == "" }) {
			t.Errorf("%q: %v", b, set)
		}
		References(set)
		Harmless("git-rebase-todo", b, [][]byte{b})
	})
}
