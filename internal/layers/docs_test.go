package layers

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra"
)

// Documents are held against the code: what they list is what there is.

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// section returns the part of a document under a heading of level 2.
func section(t *testing.T, doc, heading string) string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("no section %q", heading)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// rows returns the cells of every table row of a text, without the heads.
func rows(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") {
			continue
		}
		var cells []string
		for _, c := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(c))
		}
		out = append(out, cells)
	}
	return out
}

var code = regexp.MustCompile("`([^`]+)`")

// quoted returns what stands between backquotes.
func quoted(text string) []string {
	var out []string
	for _, m := range code.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func jsonNames(typ reflect.Type) []string {
	var out []string
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name != "-" {
			out = append(out, name)
		}
	}
	return out
}

// firstCells returns the quoted words of each row's first cell, in order.
func firstCells(text string) []string {
	var out []string
	for _, r := range rows(text) {
		out = append(out, quoted(r[0])...)
	}
	return out
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s: %q is not in the document", what, w)
		}
	}
	for i, g := range got {
		if !slices.Contains(want, g) {
			t.Errorf("%s: the document has %q, which there is not", what, g)
		}
		if i > 0 && got[i-1] == g {
			t.Errorf("%s: %q stands twice", what, g)
		}
	}
}

func TestFormatsListsEveryEvent(t *testing.T) {
	table := rows(section(t, read(t, "docs/formats.md"), "Events"))
	var kinds []string
	fields := map[string][]string{}
	for _, r := range table[1:] {
		kind := quoted(r[0])[0]
		kinds = append(kinds, kind)
		fields[kind] = quoted(r[2])
	}
	var want []string
	for _, e := range palyra.Catalogue() {
		want = append(want, e.Kind())
		if got, want := fields[e.Kind()], jsonNames(reflect.TypeOf(e)); !slices.Equal(got, want) {
			t.Errorf("%s has fields %v, the document says %v", e.Kind(), want, got)
		}
	}
	if !slices.Equal(kinds, want) {
		t.Errorf("the document has the kinds %v, the catalogue %v", kinds, want)
	}
}

func TestFormatsListsEveryOutcomeField(t *testing.T) {
	text := section(t, read(t, "docs/formats.md"), "Outcome")
	if got, want := firstCells(text), jsonNames(reflect.TypeFor[palyra.Outcome]()); !slices.Equal(got, want) {
		t.Errorf("fields, in order, are\n%v, the document says\n%v", want, got)
	}
}

func TestFormatsListsEveryPredicateAndPlanAndIntentField(t *testing.T) {
	doc := read(t, "docs/formats.md")
	same(t, "predicate", firstCells(section(t, doc, "Attestation")), jsonNames(reflect.TypeFor[palyra.Predicate]()))
	same(t, "intent", firstCells(section(t, doc, "Intent")), jsonNames(reflect.TypeFor[palyra.Intent]()))
	same(t, "plan", firstCells(section(t, doc, "Plan digest")), jsonNames(reflect.TypeFor[palyra.Plan]()))
}

// constants returns the string or number constants of a file whose type or
// name prefix fits.
func constants(t *testing.T, name string, fits func(name, typ string) bool) []string {
	t.Helper()
	tr, err := load(os.DirFS(filepath.Join("../..", filepath.FromSlash(path.Dir(name)))))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range tr.files {
		if f.name != path.Base(name) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Values) != len(v.Names) {
				return true
			}
			typ := ""
			if id, ok := v.Type.(*ast.Ident); ok {
				typ = id.Name
			}
			for i, id := range v.Names {
				lit, ok := v.Values[i].(*ast.BasicLit)
				if !ok || !fits(id.Name, typ) {
					continue
				}
				text := lit.Value
				if lit.Kind == token.STRING {
					text, _ = strconv.Unquote(text)
				}
				out = append(out, text)
			}
			return true
		})
	}
	if len(out) == 0 {
		t.Fatalf("%s: nothing found", name)
	}
	return out
}

func TestFormatsListsEveryReasonAndCode(t *testing.T) {
	text := section(t, read(t, "docs/formats.md"), "Errors and reasons")
	codes, reasons, ok := strings.Cut(text, "\n| reason |")
	if !ok {
		t.Fatal("no table of reasons")
	}
	same(t, "code", firstCells(codes), constants(t, "errors.go", func(_, typ string) bool { return typ == "Code" }))
	same(t, "reason", firstCells(reasons), constants(t, "errors.go", func(_, typ string) bool { return typ == "Reason" }))
}

func TestFormatsListsEveryExitCode(t *testing.T) {
	var got []string
	for _, r := range rows(section(t, read(t, "docs/formats.md"), "Exit codes"))[1:] {
		got = append(got, r[0])
	}
	same(t, "exit code", got, constants(t, "internal/cli/exit/exit.go", func(string, string) bool { return true }))
}

func TestFormatsListsEverySetting(t *testing.T) {
	files, err := filepath.Glob("../config/setting*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	var src string
	for _, f := range files {
		src += read(t, "internal/config/"+filepath.Base(f))
	}
	var want []string
	for _, m := range regexp.MustCompile(`key: +"([a-z_.]+)"`).FindAllStringSubmatch(src, -1) {
		want = append(want, m[1])
	}
	if len(want) < 5 {
		t.Fatalf("only %d settings found", len(want))
	}
	var got []string
	for _, r := range rows(section(t, read(t, "docs/formats.md"), "Settings"))[1:] {
		got = append(got, quoted(r[0])...)
	}
	same(t, "setting", got, want)
}

// The published vectors are the tested ones.
func TestFormatsPublishesTheVectors(t *testing.T) {
	doc := read(t, "docs/formats.md")
	var canon []struct{ JSON, Canon, Digest string }
	if err := json.Unmarshal([]byte(read(t, "internal/canon/testdata/vectors.json")), &canon); err != nil {
		t.Fatal(err)
	}
	for _, v := range canon {
		if !strings.Contains(doc, "| `"+v.JSON+"` | `"+v.Canon+"` | `"+v.Digest+"` |") {
			t.Errorf("the vector %s is not published", v.JSON)
		}
	}
	var plans []struct{ Name, Digest string }
	if err := json.Unmarshal([]byte(read(t, "testdata/plans.json")), &plans); err != nil {
		t.Fatal(err)
	}
	for _, v := range plans {
		if !strings.Contains(doc, "| "+v.Name+" | `"+v.Digest+"` |") {
			t.Errorf("the plan %q is not published", v.Name)
		}
	}
	if len(canon) == 0 || len(plans) == 0 {
		t.Error("no vectors")
	}
}

// Every domain that a digest or a signature is made in is published.
func TestFormatsListsEveryDomain(t *testing.T) {
	doc := read(t, "docs/formats.md")
	domain := regexp.MustCompile(`^"(?:palyra/)?([a-z]+(?:-[a-z]+)*/v[0-9]+)(?:\\x00)?"$`)
	found := 0
	hold(t, func(tr *tree) []string {
		var bad []string
		for _, f := range tr.code() {
			if strings.HasPrefix(f.dir, "cmd/") { // the verifier repeats them on purpose
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if m := domain.FindStringSubmatch(lit.Value); m != nil {
					found++
					if !strings.Contains(doc, m[1]+"`") {
						bad = append(bad, tr.where(f, lit)+": the domain "+m[1]+" is not in docs/formats.md")
					}
				}
				return true
			})
		}
		return bad
	})
	if found < 5 {
		t.Errorf("only %d domains found", found)
	}
}

func TestLifecycleTellsTheStateTable(t *testing.T) {
	text := section(t, read(t, "docs/lifecycle.md"), "States")
	moves := map[string][]string{}
	for _, r := range rows(text)[1:] {
		for _, from := range quoted(r[0]) {
			moves[from] = quoted(r[1])
		}
	}
	for _, from := range palyra.States() {
		if _, ok := moves[string(from)]; !ok {
			t.Errorf("%s has no row", from)
		}
		for _, to := range palyra.States() {
			if told := slices.Contains(moves[string(from)], string(to)); told != from.MayBecome(to) {
				t.Errorf("%s may become %s: %t, the document says %t", from, to, !told, told)
			}
		}
	}
	crash := section(t, read(t, "docs/lifecycle.md"), "After a crash")
	told := map[string]string{}
	for _, r := range rows(crash)[1:] {
		for _, from := range quoted(r[0]) {
			told[from] = quoted(r[1])[0]
		}
	}
	for _, s := range palyra.States() {
		if !s.Ended() && told[string(s)] != string(s.AfterCrash()) {
			t.Errorf("%s becomes %s, the document says %q", s, s.AfterCrash(), told[string(s)])
		}
	}
}

// Every durable step, by the name that fault tests know it by, has its meaning
// told: those written out in the code, and those named after an event.
func TestLifecycleTellsEveryStep(t *testing.T) {
	told := quoted(read(t, "docs/lifecycle.md"))
	for _, e := range palyra.Catalogue() {
		if !slices.Contains(told, e.Kind()) {
			t.Errorf("%s is not in docs/lifecycle.md", e.Kind())
		}
	}
	step := regexp.MustCompile(`^"([a-z]+\.[a-z]+)(/lost|/kept)?"$`)
	found := 0
	hold(t, func(tr *tree) []string {
		var bad []string
		for _, f := range tr.code() {
			if f.suite() {
				continue
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				c, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				s, ok := c.Fun.(*ast.SelectorExpr)
				if !ok || (s.Sel.Name != "Write" && !strings.EqualFold(s.Sel.Name, "point")) {
					return true
				}
				for _, arg := range c.Args {
					lit, ok := arg.(*ast.BasicLit)
					if !ok {
						continue
					}
					if m := step.FindStringSubmatch(lit.Value); m != nil {
						found++
						if !slices.Contains(told, m[1]) {
							bad = append(bad, tr.where(f, lit)+": the step "+m[1]+" is not in docs/lifecycle.md")
						}
					}
				}
				return true
			})
		}
		return bad
	})
	if found < 10 {
		t.Errorf("only %d steps found", found)
	}
}

// Links between documents lead somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	docs, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"../../docs", "../../changelog"} {
		more, err := filepath.Glob(filepath.Join(dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, more...)
	}
	if len(docs) < 8 {
		t.Fatalf("only %d documents", len(docs))
	}
	for _, name := range docs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if m[1] != "" && !strings.Contains(m[1], "://") {
				if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
					t.Errorf("%s links to %s, which is not there", name, m[1])
				}
			}
			if m[1] == "" && !strings.Contains(strings.ToLower(string(b)), "## "+strings.ReplaceAll(m[2][1:], "-", " ")) {
				t.Errorf("%s links to %s, which is not there", name, m[2])
			}
		}
	}
}

// Tracked text names no machine: a path that exists only where something was
// written down is a defect for everybody else.
func TestNothingNamesAMachine(t *testing.T) {
	machine := regexp.MustCompile(`/(work|root|home/[a-z]+)/(main|shared|go/)|\.\./shared\b`)
	root := os.DirFS("../..")
	seen := 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := path.Base(name); name != "." && (base == ".git" || base == "bin" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(name) {
		case ".go", ".md", ".sh", ".yaml", ".proto", ".toml", ".sql", "":
		default:
			return nil
		}
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		seen++
		if m := machine.Find(b); m != nil && name != "internal/layers/docs_test.go" {
			t.Errorf("%s names %s", name, m)
		}
		return nil
	})
	if err != nil || seen < 50 {
		t.Fatalf("%d files, %v", seen, err)
	}
}

func TestSameNoticesBothWays(t *testing.T) {
	if got := rows("| a | b |\n|---|---|\n| `x`, `y` | z |\ntext"); len(got) != 2 || got[1][0] != "`x`, `y`" {
		t.Errorf("rows: %q", got)
	}
	if got := firstCells("| `x`, `y` | `z` |"); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("first cells: %q", got)
	}
}
