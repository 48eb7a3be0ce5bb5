//go:build unix

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra"
)

func entries(m map[string]any) string {
	var s []string
	for _, e := range m["entries"].([]any) {
		e := e.(map[string]any)
		line := fmt.Sprintf("%s:%s", e["path"], e["type"])
		if e["target"] != nil {
			line += "=" + e["target"].(string)
		}
		s = append(s, line)
	}
	return strings.Join(s, " ")
}

func TestList(t *testing.T) {
	each(t, func(b *box) {
		b.put("b/c.txt", "123", 0o644)
		b.put("b/d/e", "", 0o644)
		b.put("a", "x", 0o644)
		b.put(".git/config", "x", 0o644)
		b.link("../out", "link")
		b.ok(syscall.Mkfifo(b.path("p"), 0o600))
		if got := entries(b.must("list", args{})); got != ".git:dir a:file b:dir link:symlink=../out p:other" {
			b.Error(got)
		}
		if got := entries(b.must("list",
			args{"recursive": true})); got != ".git:dir a:file b:dir b/c.txt:file b/d:dir b/d/e:file link:symlink=../out p:other" {
			b.Error(got)
		}
		if got := entries(b.must("list", args{"path": ".git"})); got != ".git/config:file" {
			b.Error(got)
		}
		got := b.must("list", args{"path": "b", "limit": 1})
		if entries(got) != "b/c.txt:file" || got["truncated"] != true || got["path"] != "b" {
			b.Errorf("%v", got)
		}
		if got["entries"].([]any)[0].(map[string]any)["size"] != 3.0 {
			b.Errorf("%v", got)
		}
		b.refused(palyra.ReasonPathInvalid, "list", args{"path": "a"})
		b.refused(palyra.ReasonFileNotFound, "list", args{"path": "zzz"})
	})
}

func TestListOddNames(t *testing.T) {
	b := newBox(t, os.Geteuid())
	for _, name := range []string{"a\nb", "\xff\xfe", "-rf", "with space", "\u202e"} {
		b.ok(os.WriteFile(b.path(name), nil, 0o644))
	}
	got := b.must("list", args{})
	if n := len(got["entries"].([]any)); n != 5 || !strings.Contains(fmt.Sprint(got), "invalid_name") {
		b.Errorf("%d: %v", n, got)
	}
}

// What a list or a search names can be read by that name, whatever bytes it has.
func TestNamesOfBytesCanBeRead(t *testing.T) {
	each(t, func(b *box) {
		for _, name := range []string{"d\xff/a\xfe", `"a\xfe"`, "a\nb"} {
			b.put(name, "Foo "+name, 0o644)
		}
		var read int
		for _, e := range b.must("list", args{"recursive": true})["entries"].([]any) {
			if e := e.(map[string]any); e["type"] == "file" {
				read++
				if got := b.must("read", args{"path": e["path"], "encoding": "base64"}); got["path"] != e["path"] || got["size"].(float64) < 5 {
					b.Errorf("%v: %v", e, got)
				}
			}
		}
		found := b.must("search", args{"pattern": "Foo", "path": `"d\xff"`})["matches"].([]any)
		if read != 3 || len(found) != 1 || found[0].(map[string]any)["path"] != `"d\xff/a\xfe"` {
			b.Errorf("%d read, found %v", read, found)
		}
		b.refused(palyra.ReasonPathInvalid, "write", args{"path": `"d\xff/a\xfe"`, "content": "x"})
		b.refused(palyra.ReasonPathOutside, "read", args{"path": `"../\xff"`})
	})
}

func TestListEndsWithItsContext(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("a", "", 0o644)
	p, err := b.plan("list", args{})
	b.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.runPlan(ctx, p); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestSearch(t *testing.T) {
	each(t, func(b *box) {
		b.put("a.go", "package a\n\tfunc Foo() {}\r\n// foo\n", 0o644)
		b.put("sub/b.txt", "Foo\n", 0o644)
		b.put("sub/bin", "Foo\x00\n", 0o644)
		b.put(".git/x", "Foo\n", 0o644)
		b.put("big", "Foo\n"+strings.Repeat("x", maxSearchedFile), 0o644)
		b.ok(os.WriteFile(filepath.Join(b.out, "c"), []byte("Foo\n"), 0o644))
		b.link("../out", "outlink")
		hits := func(m map[string]any) string {
			var s []string
			for _, e := range m["matches"].([]any) {
				e := e.(map[string]any)
				s = append(s, fmt.Sprintf("%s:%v:%v:%s", e["path"], e["line"], e["column"], e["text"]))
			}
			return strings.Join(s, " | ")
		}
		got := b.must("search", args{"pattern": `F\w+`})
		if hits(got) != "a.go:2:7:\tfunc Foo() {} | sub/b.txt:1:1:Foo" || got["truncated"] != nil ||
			fmt.Sprint(got["files_skipped"]) != "map[binary:1 too_large:1]" || got["files_searched"] != 2.0 {
			b.Errorf("%v", got)
		}
		if got := b.must("search", args{"pattern": "foo", "ignore_case": true, "glob": "*.go"}); hits(
			got) != "a.go:2:7:\tfunc Foo() {} | a.go:3:4:// foo" {
			b.Errorf("%v", got)
		}
		if got := b.must("search", args{"pattern": "Foo", "path": "sub/b.txt"}); hits(got) != "sub/b.txt:1:1:Foo" {
			b.Errorf("%v", got)
		}
		if got := b.must("search", args{"pattern": "Foo", "max_results": 1}); got["truncated"] != "max_results" ||
			len(got["matches"].([]any)) != 1 {
			b.Errorf("%v", got)
		}
		if got := b.must("search", args{"pattern": "^", "path": "sub", "glob": "sub/**/*.txt"}); hits(got) != "sub/b.txt:1:1:Foo" {
			b.Errorf("%v", got)
		}
		b.refused(palyra.ReasonSchemaMismatch, "search", args{"pattern": "("})
		b.refused(palyra.ReasonSchemaMismatch, "search", args{"pattern": `(?=x)`})
		b.refused(palyra.ReasonSchemaMismatch, "search", args{"pattern": "x", "glob": "["})
		b.refused(palyra.ReasonFileTooLarge, "search", args{"pattern": "x", "path": "big"})
	})
}

func TestSearchClipsLongLines(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put("long", strings.Repeat("é", maxLineSearched)+"needle\nneedle"+strings.Repeat("y", 1000), 0o644)
	got := b.must("search", args{"pattern": "needle"})
	m := got["matches"].([]any)
	if len(m) != 1 || len(m[0].(map[string]any)["text"].(string)) > maxLine+4 {
		b.Errorf("%v", got)
	}
}

func TestDeepTreeIsBounded(t *testing.T) {
	b := newBox(t, os.Geteuid())
	b.put(strings.Repeat("d/", maxDepth+3)+"f", "x", 0o644)
	if got := b.must("list", args{"recursive": true}); got["unreadable"] != 1.0 {
		b.Errorf("%v", got["unreadable"])
	}
}
