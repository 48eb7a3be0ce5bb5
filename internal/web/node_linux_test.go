package web_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/canon"
	"palyra/internal/show"
)

// script reads tasks from its standard input and prints how the console's own code does each.
const script = `
const load = (name) => import(process.argv[1] + name);
const [show, canon, hosts] = await Promise.all(["/ui/show.ts", "/sign/canon.ts", "/approvals/hosts.ts"].map(load));
const value = (v) => Array.isArray(v) ? v.map(value) : v && typeof v === "object" ?
	("n" in v ? BigInt(v.n) : Object.fromEntries(Object.entries(v.m).map(([k, x]) => [k, value(x)]))) : v;
let text = "";
process.stdin.setEncoding("utf8");
for await (const piece of process.stdin) text += piece;
const { texts, values, places } = JSON.parse(text);
console.log(JSON.stringify({
	texts: texts.map((s) => ({ Text: s, Line: show.visible(s), Block: show.visible(s, true), Arg: show.argument(s) })),
	values: values.map((v) => Buffer.from(canon.canon(value(v))).toString("base64")),
	places: places.map(hosts.notPublic),
}));
`

// vector is how one text is shown.
type vector struct{ Text, Line, Block, Arg string }

// letters are what texts are drawn from: each matters to a rule.
var letters = []rune("ab_x1 \\nrtu{}\"\t\n\r\x00\x1b\x7f\u009b\u00a0éßſ\u0301\u0338\u200b\u202e\u2066аеорпрxиΑοαγֈაשم\u0915\u094d" +
	"\u0e01\u0e49中한│⇥⋯—…⁄∕\u2800\u3164\ufeff\ufffd\ue000\U0001d400\U0001f600\U000e0041")

func text(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(24) {
		if r.IntN(12) == 0 {
			b.WriteString(strings.Repeat(" ", 62+r.IntN(4)))
		}
		b.WriteRune(letters[r.IntN(len(letters))])
	}
	return b.String()
}

// drawn is a value, as canon takes it and as the script reads it.
func drawn(r *rand.Rand, depth int) (own, sent any) {
	kinds := 7
	if depth > 3 {
		kinds = 5
	}
	switch r.IntN(kinds) {
	case 0:
		return nil, nil
	case 1:
		return true, true
	case 2:
		return false, false
	case 3:
		n := int64(r.Uint64()) >> r.IntN(64)
		raw, _ := json.Marshal(n)
		return n, map[string]any{"n": string(raw)}
	case 4:
		s := text(r)
		return s, s
	case 5:
		list, same := []any{}, []any{}
		for range r.IntN(4) {
			a, b := drawn(r, depth+1)
			list, same = append(list, a), append(same, b)
		}
		return list, same
	}
	m, same := map[string]any{}, map[string]any{}
	for range r.IntN(4) {
		key := text(r)
		m[key], same[key] = drawn(r, depth+1)
	}
	return m, map[string]any{"m": same}
}

// The console's own code shows outside text as internal/show does and signs the bytes of internal/canon: texts and values
// that are hostile or drawn at random give the same, one by one.
func TestTheConsoleShowsAndSignsTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var tasks struct {
		Texts  []string `json:"texts"`
		Values []any    `json:"values"`
		Places []string `json:"places"`
	}
	var want [][]byte
	for range 5_000 {
		tasks.Texts = append(tasks.Texts, text(r))
		own, sent := drawn(r, 0)
		raw, err := canon.Marshal(own)
		if err != nil {
			t.Fatal(err)
		}
		tasks.Values, want = append(tasks.Values, sent), append(want, raw)
	}
	for c := rune(0); c < 0x30000; c++ { // every character by itself, most of which are in these planes
		if c < 0xd800 || c > 0xdfff {
			tasks.Texts = append(tasks.Texts, string(c))
		}
	}
	for _, v := range vectors[vector](t, "../show/testdata/vectors.json") {
		tasks.Texts = append(tasks.Texts, v.Text)
	}
	for _, v := range vectors[struct{ JSON, Canon string }](t, "../canon/testdata/vectors.json") {
		if sent, ok := whole(t, v.JSON); ok {
			tasks.Values, want = append(tasks.Values, sent), append(want, []byte(v.Canon))
		}
	}
	var got struct {
		Texts  []vector
		Values [][]byte
		Places []bool
	}
	raw, err := os.ReadFile("../cli/question/testdata/hosts.json") // what the command says of them
	places := map[string]bool{}
	if err = errors.Join(err, json.Unmarshal(raw, &places)); err != nil || len(places) < 10 {
		t.Fatalf("%d hosts, %v", len(places), err)
	}
	for host := range places {
		tasks.Places = append(tasks.Places, host)
	}
	run(t, tasks, &got)
	bad := 0
	for i, s := range tasks.Texts {
		if w := (vector{s, show.Line(s), show.Block(s), show.Arg(s)}); got.Texts[i] != w && bad < 3 {
			bad++
			t.Errorf("%q:\n is %+q\nnot %+q", s, got.Texts[i], w)
		}
	}
	for i, host := range tasks.Places {
		if got.Places[i] != places[host] {
			t.Errorf("%q is not public: %v", host, got.Places[i])
		}
	}
	for i, w := range want {
		if string(got.Values[i]) != string(w) && bad < 3 {
			bad++
			t.Errorf("%+v:\n is %q\nnot %q", tasks.Values[i], got.Values[i], w)
		}
	}
}

// vectors are those that the package itself is held against.
func vectors[V any](t *testing.T, file string) (all []V) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil || len(all) < 10 {
		t.Fatalf("%d vectors in %s, %v", len(all), file, err)
	}
	return all
}

// whole is a JSON text as the script reads values. Numbers that are not whole are signed by no page.
func whole(t *testing.T, text string) (sent any, ok bool) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&sent); err != nil {
		t.Fatal(err)
	}
	ok = true
	var each func(v any) any
	each = func(v any) any {
		switch v := v.(type) {
		case json.Number:
			ok = ok && !strings.ContainsAny(v.String(), ".eE")
			return map[string]any{"n": v.String()}
		case []any:
			for i := range v {
				v[i] = each(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = each(v[k])
			}
			return map[string]any{"m": v}
		}
		return v
	}
	return each(sent), ok
}

// run has the console's code do the tasks, in Node.
func run(t *testing.T, tasks, out any) {
	t.Helper()
	said, err := exec.Command("../../scripts/node.sh").Output()
	if err != nil {
		t.Fatalf("Node is missing: scripts/setup.sh test installs it: %v", err)
	}
	sources, err := filepath.Abs("../../console/src")
	if err != nil {
		t.Fatal(err)
	}
	in, err := json.Marshal(tasks)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(strings.TrimSpace(string(said)), "node"), "--input-type=module", "--eval", script, sources)
	cmd.Stdin = strings.NewReader(string(in))
	var problems strings.Builder
	cmd.Stderr = &problems
	raw, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
}
