package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra"
	"palyra/internal/agent"
)

const good = `title: Tidy up
workspace: /home/me/project
turns:
  - say: Looking around.
    calls:
      - tool: palyra.fs.read
        with: {path: README.md, "n": 3, deep: [1, 2.5, true, null, {a: "<b>"}], when: 2024-01-02, 7: seven, hex: 0x10}
        expect: finished
      - tool: palyra.fs.write
        stop_on: refused
  - say: |
      Two
      lines.
`

func TestScript(t *testing.T) {
	p, err := New([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.(agent.Titled).Title(); got != "Tidy up" {
		t.Errorf("title %q", got)
	}
	first, err := p.Next(t.Context(), agent.Transcript{Turn: 1})
	if err != nil || first.Text != "Looking around." || first.Done || len(first.Calls) != 2 {
		t.Fatalf("%+v, %v", first, err)
	}
	want := `{"path":"README.md","n":3,"deep":[1,2.5,true,null,{"a":"<b>"}],"when":"2024-01-02","7":"seven","hex":16}`
	if c := first.Calls[0]; c.Tool != "palyra.fs.read" || c.Workspace != "/home/me/project" || string(c.Arguments) != want {
		t.Errorf("%s\nwant %s", c.Arguments, want)
	}
	if string(first.Calls[1].Arguments) != "{}" {
		t.Errorf("%s", first.Calls[1].Arguments)
	}
	last, err := p.Next(t.Context(), agent.Transcript{Turn: 2})
	if err != nil || last.Text != "Two\nlines.\n" || !last.Done {
		t.Errorf("%+v, %v", last, err)
	}
	for _, beyond := range []int64{3, 1 << 40, 0, -1} {
		if turn, err := p.Next(t.Context(), agent.Transcript{Turn: beyond}); err != nil || !turn.Done || len(turn.Calls) != 0 {
			t.Errorf("turn %d: %+v, %v", beyond, turn, err)
		}
	}
}

func TestExpectations(t *testing.T) {
	p, err := New([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	turn, _ := p.Next(context.Background(), agent.Transcript{Turn: 1})
	read, write := turn.Calls[0].Check, turn.Calls[1].Check
	finished := palyra.Outcome{Outcome: palyra.OutcomeFinished}
	refused := palyra.Outcome{Outcome: palyra.OutcomeRefused, Reason: "policy says no", ReasonCode: palyra.ReasonPolicyDenied, Remedy: "ask"}
	if err := read(finished); err != nil {
		t.Error(err)
	}
	if err := write(finished); err != nil {
		t.Error(err)
	}
	e := palyra.AsError(read(refused))
	if e.Reason != palyra.ReasonVerifyFailed || e.Remedy != "ask" ||
		e.Text != "turn 1, call 1 (palyra.fs.read): expected finished, got refused: policy says no" {
		t.Errorf("%+v", e)
	}
	e = palyra.AsError(write(refused))
	if e.Reason != palyra.ReasonPolicyDenied || !strings.HasPrefix(e.Text, "turn 1, call 2 (palyra.fs.write): the script stops on refused") {
		t.Errorf("%+v", e)
	}
	if e := palyra.AsError((scriptCall{stopOn: palyra.OutcomeFinished}).check(finished, "here")); e.Reason == "" ||
		e.Reason == palyra.ReasonInternal {
		t.Errorf("%+v", e)
	}
}

func TestBadScripts(t *testing.T) {
	turns := func(n int) string { return "turns:\n" + strings.Repeat("  - say: x\n", n) }
	calls := func(n int) string { return "turns:\n  - calls:\n" + strings.Repeat("      - tool: x\n", n) }
	with := func(s string) string { return "turns:\n  - calls:\n      - tool: x\n        with: " + s + "\n" }
	cases := map[string]struct {
		script, want string
	}{
		"empty":              {"", "line 1: it is empty"},
		"a comment":          {"# nothing\n", "line 1: it is empty"},
		"a text":             {"hello", "line 1: the script must be a mapping"},
		"a list":             {"- a\n", "line 1: the script must be a mapping"},
		"null":               {"~", "the script must be a mapping"},
		"no turns":           {"title: x\n", "line 1: turns is missing"},
		"turns a mapping":    {"turns: {a: b}\n", "line 1: turns must be a list"},
		"turns empty":        {"title: x\nturns: []\n", "line 2: turns is empty"},
		"turns null":         {"turns:\n", "turns must be a list"},
		"a turn a text":      {"turns:\n  - hello\n", "line 2: a turn must be a mapping"},
		"an empty turn":      {"turns:\n  - {}\n", "line 2: a turn says or calls something"},
		"unknown key":        {"turns:\n  - say: x\nloop: 1\n", `line 3: the script has no key "loop"`},
		"unknown in a turn":  {"turns:\n  - say: x\n    shout: y\n", `line 3: a turn has no key "shout"`},
		"unknown in a call":  {"turns:\n  - calls:\n      - tool: x\n        args: {}\n", `line 4: a call has no key "args"`},
		"case matters":       {"Turns:\n  - say: x\n", `line 1: the script has no key "Turns"`},
		"twice":              {"title: a\ntitle: b\nturns: [{say: x}]\n", `line 2: the key "title" is there twice`},
		"twice in with":      {with("{a: 1, a: 2}"), "is there twice"},
		"twice, written 2×":  {with(`{a: 1, "a": 2}`), "is there twice"},
		"title a number":     {"title: 7\nturns: [{say: x}]\n", "line 1: title must be a text"},
		"title two lines":    {"title: \"a\\nb\"\nturns: [{say: x}]\n", "line 1: title must be one line"},
		"title long":         {"title: " + strings.Repeat("x", 201) + "\nturns: [{say: x}]\n", "title has 201 bytes"},
		"say empty":          {"turns:\n  - say: ''\n", "line 2: say is empty"},
		"say a list":         {"turns:\n  - say: [a]\n", "line 2: say must be a text"},
		"no tool":            {"turns:\n  - calls:\n      - with: {}\n", "line 3: a call names its tool"},
		"with a list":        {with("[1]"), "line 4: with must be a mapping"},
		"with nothing":       {with(""), "line 4: with must be a mapping"},
		"expect":             {"turns:\n  - calls:\n      - tool: x\n        expect: ok\n", "line 4: expect must be one of"},
		"stop_on":            {"turns:\n  - calls:\n      - tool: x\n        stop_on: [refused]\n", "line 4: stop_on must be one of"},
		"too many turns":     {turns(maxTurns + 1), "turns has 1001 items, at most 1000"},
		"too many calls":     {calls(maxCalls + 1), "calls has 65 items, at most 64"},
		"too long":           {strings.Repeat("#", maxScript+1), "at most 1048576"},
		"two documents":      {"turns: [{say: x}]\n---\nturns: [{say: y}]\n", "there is a second document"},
		"a broken second":    {"turns: [{say: x}]\n---\n\"\n", "line"},
		"an anchor":          {"title: &a x\nturns: [{say: x}]\n", "line 1: anchors and aliases"},
		"an anchored key":    {"&a title: x\nturns: [{say: x}]\n", "line 1: anchors and aliases"},
		"an alias":           {with("{a: &x 1, b: *x}"), "anchors and aliases"},
		"a merge":            {with("{<<: {a: 1}}"), "a key must be a text"},
		"a tag":              {with("{a: !!binary aGVsbG8=}"), "tags are not used"},
		"another tag":        {with("{a: !run x}"), "tags are not used"},
		"a tagged mapping":   {"!!map {turns: [{say: x}]}", "tags are not used"},
		"a list as key":      {with("{[a]: 1}"), "a key must be a text"},
		"infinity":           {with("{a: .inf}"), "not a number that JSON knows"},
		"not a number":       {with("{a: .nan}"), "not a number that JSON knows"},
		"not UTF-8":          {"title: \"\xff\"\n", "not UTF-8"},
		"UTF-16":             {"\xff\xfet\x00", "not UTF-8"},
		"a NUL":              {"turns:\n  - say: \"a\\0b\"\n", "line 2: it contains a NUL"},
		"a control":          {"turns:\n  - say: \x01\n", "control characters"},
		"deep":               {with(strings.Repeat("{a: ", 40) + "1" + strings.Repeat("}", 40)), "nested more than 32 deep"},
		"very deep":          {"turns: " + strings.Repeat("[", 100_000), "bad script"},
		"a tab":              {"turns:\n\t- say: x\n", "line 2"},
		"an unclosed quote":  {"turns:\n  - say: \"x\n", "line"},
		"a bomb":             {bomb(), "anchors and aliases"},
		"an undefined alias": {"turns: *x\n", "bad script"},
	}
	for name, c := range cases {
		p, err := New([]byte(c.script))
		e := palyra.AsError(err)
		if err == nil || p != nil {
			t.Errorf("%s: taken", name)
			continue
		}
		if e.Reason != palyra.ReasonBadScript || e.Code != palyra.Invalid || e.Remedy == "" || !strings.Contains(e.Text, c.want) ||
			len(e.Text) > 600 {
			t.Errorf("%s: %s %q, want %q", name, e.Reason, e.Text, c.want)
		}
	}
}

// bomb is a billion laughs.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d]\n", i, i, i-1, i-1)
	}
	return b.String()
}

func TestLargestScript(t *testing.T) {
	s := "turns:\n" + strings.Repeat("  - say: x\n", maxTurns-1) + "  - calls:\n" + strings.Repeat("      - tool: x\n", maxCalls)
	if _, err := New([]byte(s)); err != nil {
		t.Error(err)
	}
}

// Whatever comes in: it is refused as a bad script, or it is a script whose
// turns are bounded, whose arguments are JSON objects, and which says the same
// every time.
func FuzzScript(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(bomb()))
	f.Add([]byte("turns: [{say: x, calls: [{tool: t, with: {a: 1e400, b: 0o17, c: 1_000, d: '\\u0000'}}]}]"))
	f.Add([]byte("? turns\n: - say: |2-\n     x\n"))
	f.Add([]byte("turns:\n- calls:\n  - {tool: x, with: {? a : b, !!str c: d, <<: *x}}\n"))
	f.Fuzz(func(t *testing.T, input []byte) {
		p, err := New(input)
		if err != nil {
			if e := palyra.AsError(err); e.Reason != palyra.ReasonBadScript || e.Code != palyra.Invalid {
				t.Fatalf("%v", err)
			}
			return
		}
		s := p.(*script)
		if len(input) > maxScript || len(s.turns) == 0 || len(s.turns) > maxTurns {
			t.Fatalf("%d turns from %d bytes", len(s.turns), len(input))
		}
		again, err := parse(input)
		if err != nil || cmp.Diff(s, again, cmp.AllowUnexported(script{}, turn{}, scriptCall{})) != "" {
			t.Fatalf("it reads differently the second time: %v", err)
		}
		for _, tn := range s.turns {
			if len(tn.calls) > maxCalls || (tn.say == "" && len(tn.calls) == 0) {
				t.Fatalf("%+v", tn)
			}
			for _, c := range tn.calls {
				var object map[string]any
				if err := json.Unmarshal(c.with, &object); err != nil || object == nil || c.tool == "" {
					t.Fatalf("%q: %v", c.with, err)
				}
			}
		}
	})
}
