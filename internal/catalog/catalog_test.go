package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra"
)

// real is a catalog of the built-in tools, as their packages publish them.
func real(t testing.TB) *Catalog {
	t.Helper()
	goldens, err := filepath.Glob("../tool/*/testdata/tools.golden.json")
	if err != nil || len(goldens) < 3 {
		t.Fatal(goldens, err)
	}
	var all []palyra.Tool
	for _, file := range goldens {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var some []palyra.Tool
		if err := json.Unmarshal(raw, &some); err != nil {
			t.Fatal(file, err)
		}
		all = append(all, some...)
	}
	c, err := New(Config{Tools: all, MaxCalls: 64})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func admit(c *Catalog, tool, args string) (palyra.Tool, error) {
	return c.Admit(context.Background(), palyra.Proposal{Tool: palyra.ToolName(tool), Arguments: json.RawMessage(args)})
}

func TestAdmit(t *testing.T) {
	c := real(t)
	for tool, all := range map[string][]string{
		"palyra.echo":      {`{"text":""}`, `{"text":"é\n"}`},
		"palyra.sleep":     {`{"duration_ms":0}`, `{"duration_ms":600000}`, `{"duration_ms":1e3}`, `{"duration_ms":1.0}`},
		"palyra.fs.read":   {`{"path":"a"}`, `{"path":"a","offset":5,"limit":1,"encoding":"base64"}`},
		"palyra.fs.list":   {`{}`, `{"path":"a","recursive":true,"limit":5000}`},
		"palyra.fs.search": {`{"pattern":"x"}`, `{"pattern":"x","glob":"*.go","ignore_case":true,"max_results":1,"path":"."}`},
		"palyra.fs.write": {
			`{"path":"a","content":"b"}`,
			`{"path":"a","content_b64":"AA==","mode":"create","make_dirs":true,"executable":false}`,
		},
		"palyra.fs.edit": {
			`{"path":"a","old_string":"x","new_string":""}`,
			`{"path":"a","old_string":"x","new_string":"y","replace_all":true}`,
		},
		"palyra.fs.apply_patch": {`{"patch":"x"}`},
		"palyra.artifact.read":  {`{"artifact_id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}`},
	} {
		for _, args := range all {
			if got, err := admit(c, tool, args); err != nil || string(got.Name) != tool {
				t.Errorf("%s %s: %v, %v", tool, args, got.Name, err)
			}
		}
	}
}

func TestEveryToolRefusesWhatItsSchemaDoesNotName(t *testing.T) {
	c := real(t)
	for _, tool := range c.List() {
		_, err := admit(c, string(tool.Name), `{"surprise":1}`)
		if e := palyra.AsError(err); e.Reason != palyra.ReasonSchemaMismatch || !strings.Contains(e.Text, "argument") {
			t.Errorf("%s: %v", tool.Name, err)
		}
		var s struct {
			AdditionalProperties *bool
			Properties           map[string]struct{ Type, Description string }
		}
		if err := json.Unmarshal(tool.InputSchema, &s); err != nil || s.AdditionalProperties == nil || *s.AdditionalProperties {
			t.Errorf("%s takes other fields: %v", tool.Name, err)
		}
		for name, p := range s.Properties {
			if p.Description == "" || p.Type == "" {
				t.Errorf("%s: %s has no description or type", tool.Name, name)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	c := real(t)
	deep := strings.Repeat(`[`, 80) + strings.Repeat(`]`, 80)
	for _, r := range []struct {
		tool, args string
		want       palyra.Reason
		in         string // of the text
	}{
		{"palyra.echo", ``, palyra.ReasonMalformedInput, ""},
		{"palyra.echo", `null`, palyra.ReasonMalformedInput, "object"},
		{"palyra.echo", `["text"]`, palyra.ReasonMalformedInput, "object"},
		{"palyra.echo", `{"text":"a"`, palyra.ReasonMalformedInput, "parse"},
		{"palyra.echo", `{"text":"a"} {}`, palyra.ReasonMalformedInput, "follows"},
		{"palyra.echo", `{"text":"a","text":"b"}`, palyra.ReasonMalformedInput, "repeated"},
		{"palyra.echo", `{"text":"a","\u0074ext":"b"}`, palyra.ReasonMalformedInput, "repeated"},
		{"palyra.echo", `{"text":"\ud800"}`, palyra.ReasonMalformedInput, "surrogate"},
		{"palyra.echo", "{\"text\":\"\xff\"}", palyra.ReasonMalformedInput, "UTF-8"},
		{"palyra.echo", `{"text":"a\u0000b"}`, palyra.ReasonMalformedInput, "NUL"},
		{"palyra.echo", `{"te\u0000xt":"a"}`, palyra.ReasonMalformedInput, "NUL"},
		{"palyra.echo", `{"text":["a",{"b":"\u0000"}]}`, palyra.ReasonMalformedInput, "NUL"},
		{"palyra.echo", `{"text":` + deep + `}`, palyra.ReasonMalformedInput, "deep"},
		{"palyra.echo", `{"text":1e9999}`, palyra.ReasonMalformedInput, "out of range"},
		{"palyra.echo", `{"text":` + strings.Repeat("1", 65) + `}`, palyra.ReasonMalformedInput, "too long"},
		{"palyra.echo", `{}`, palyra.ReasonSchemaMismatch, `"text" is missing`},
		{"palyra.echo", `{"txt":"x"}`, palyra.ReasonSchemaMismatch, `"text" is missing, and there is no argument "txt"`},
		{"palyra.echo", `{"text":1}`, palyra.ReasonSchemaMismatch, `"text"`},
		{"palyra.echo", `{"text":null}`, palyra.ReasonSchemaMismatch, `"text"`},
		{"palyra.echo", `{"text":"a","txet":1}`, palyra.ReasonSchemaMismatch, `"txet"`},
		{"palyra.echo", `{"Text":"a","text":"b"}`, palyra.ReasonSchemaMismatch, `"Text"`},
		{"palyra.sleep", `{"duration_ms":600001}`, palyra.ReasonSchemaMismatch, "at most 600000"},
		{"palyra.sleep", `{"duration_ms":-1}`, palyra.ReasonSchemaMismatch, "at least 0"},
		{"palyra.sleep", `{"duration_ms":1.5}`, palyra.ReasonSchemaMismatch, "integer"},
		{"palyra.sleep", `{"duration_ms":"5"}`, palyra.ReasonSchemaMismatch, "integer"},
		{"palyra.sleep", `{"duration_ms":1e999}`, palyra.ReasonSchemaMismatch, "duration_ms"},
		{"palyra.fs.write", `{"path":"","content":"x"}`, palyra.ReasonSchemaMismatch, "path"},
		{"palyra.fs.write", `{"path":"a","content":"x","mode":"append"}`, palyra.ReasonSchemaMismatch, "create"},
		{"palyra.artifact.read", `{"artifact_id":"../state.db"}`, palyra.ReasonSchemaMismatch, "artifact_id"},
		{"palyra.fs.read", `{"path":"` + strings.Repeat("a", 4097) + `"}`, palyra.ReasonSchemaMismatch, "4096"},
		{"", `{}`, palyra.ReasonMalformedInput, ""},
		{"Palyra.Echo", `{}`, palyra.ReasonMalformedInput, ""},
		{"palyra.echo\x00", `{}`, palyra.ReasonMalformedInput, ""},
		{"palyra.echo\n", `{}`, palyra.ReasonMalformedInput, ""},
		{strings.Repeat("a", 129), `{}`, palyra.ReasonMalformedInput, ""},
		{"palyra.ehco", `{}`, palyra.ReasonUnknownTool, "palyra.ehco"},
	} {
		_, err := admit(c, r.tool, r.args)
		e := palyra.AsError(err)
		if err == nil || e.Reason != r.want || !strings.Contains(e.Text, r.in) || e.Remedy == "" {
			t.Errorf("%q %.60s: %v (%s), remedy %q", r.tool, r.args, err, e.Reason, e.Remedy)
		}
	}
}

// What a caller sent may be secret and never comes back in an error.
func TestErrorsDoNotRepeatValues(t *testing.T) {
	c := real(t)
	const secret = "hunter2-hunter2"
	for _, args := range []string{
		`{"text":["` + secret + `"]}`, `{"text":{"a":"` + secret + `"}}`, `{"text":"` + secret + `"`, `{"text":"` + secret + `\u0000"}`,
		`{"text":"x"}` + secret, `{"text":"` + secret + `","x":"` + secret + `"}`,
	} {
		_, err := admit(c, "palyra.echo", args)
		if e := palyra.AsError(err); err == nil || strings.Contains(e.Text+e.Remedy, secret) {
			t.Errorf("%s: %v, %s", args, err, e.Remedy)
		}
	}
	for _, args := range []string{`{"path":"a","encoding":"` + secret + `"}`, `{"path":"a","limit":"` + secret + `"}`} {
		_, err := admit(c, "palyra.fs.read", args)
		if e := palyra.AsError(err); err == nil || strings.Contains(e.Text+e.Remedy, secret) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestNearestNames(t *testing.T) {
	c := real(t)
	for asked, want := range map[string]string{
		"palyra.ehco": "palyra.echo", "fs.read": "palyra.fs.read", "read": "palyra.fs.read", "palyra.fs.wirte": "palyra.fs.write",
		"skill.notes.read":    "no tool of the skill notes is offered",
		"mcp.files.read_file": "palyra mcp show files", "apply_patch": "palyra.fs.apply_patch", "applypatch": "palyra.fs.apply_patch",
		"palyra_fs_list": "palyra.fs.list",
	} {
		_, err := c.Get(palyra.ToolName(asked))
		e := palyra.AsError(err)
		if e.Reason != palyra.ReasonUnknownTool || e.Code != palyra.NotFound || !strings.Contains(e.Remedy, want) {
			t.Errorf("%s: %q", asked, e.Remedy)
		}
	}
	if _, err := c.Get("zzzzzzzzzz"); strings.Contains(palyra.AsError(err).Remedy, "mean") {
		t.Errorf("%v", palyra.AsError(err).Remedy)
	}
	if got, err := c.Get("palyra.echo"); err != nil || got.Name != "palyra.echo" {
		t.Error(got, err)
	}
}

func TestCaps(t *testing.T) {
	c := real(t)
	write := `{"path":"a","content":"%s"}`
	room := 9<<20 - len(write) + 2
	if _, err := admit(c, "palyra.fs.write", fmt.Sprintf(write, strings.Repeat("x", room))); err != nil {
		t.Errorf("up to the cap: %v", err)
	}
	for _, n := range []int{room + 1, 10 << 20, 40 << 20} {
		_, err := admit(c, "palyra.fs.write", fmt.Sprintf(write, strings.Repeat("x", n)))
		if e := palyra.AsError(err); e.Reason != palyra.ReasonInputTooLarge || e.Code != palyra.Exhausted {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	greedy, err := New(Config{MaxCalls: 1, Tools: []palyra.Tool{{
		Name: "greedy", MaxInput: 1 << 40,
		InputSchema: json.RawMessage(`{"type":"object"}`),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit(greedy, "greedy", `{"a":"`+strings.Repeat("x", HardCap)+`"}`); palyra.AsError(err).
		Reason != palyra.ReasonInputTooLarge {
		t.Errorf("over the hard cap: %v", err)
	}
}

func TestBudget(t *testing.T) {
	c := real(t)
	for used, ok := range map[int64]bool{0: true, 63: true, 64: false, 1000: false, -1: false} {
		_, err := c.Admit(t.Context(), palyra.Proposal{
			Proposer: palyra.Proposer{CallsUsed: used}, Tool: "palyra.echo", Arguments: json.RawMessage(`{"text":""}`),
		})
		if e := palyra.AsError(err); (err == nil) != ok || err != nil && (e.Reason != palyra.ReasonBudgetSpent || e.Code != palyra.Exhausted) {
			t.Errorf("%d used: %v", used, err)
		}
	}
	none, err := New(Config{Tools: c.List()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit(none, "palyra.echo", `{"text":""}`); palyra.AsError(err).Reason != palyra.ReasonBudgetSpent {
		t.Errorf("the zero budget admits: %v", err)
	}
}

func TestListIsSorted(t *testing.T) {
	var names []string
	for _, tool := range real(t).List() {
		names = append(names, string(tool.Name))
	}
	if !slices.IsSorted(names) || len(names) != 16 {
		t.Error(names)
	}
}

func TestNewRefuses(t *testing.T) {
	good := palyra.Tool{Name: "a", InputSchema: json.RawMessage(`{"type":"object"}`)}
	for _, tools := range [][]palyra.Tool{
		{good, good},
		{{Name: "A", InputSchema: good.InputSchema}},
		{{Name: "a"}},
		{{Name: "a", InputSchema: json.RawMessage(`{"type":"string"}`)}},
		{{Name: "a", InputSchema: json.RawMessage(`{"type":"object","properties":{"x":{"pattern":"("}}}`)}},
		{{Name: "a", InputSchema: json.RawMessage(`{`)}},
	} {
		if _, err := New(Config{Tools: tools}); err == nil {
			t.Errorf("accepted %v", tools)
		}
	}
}

// Schemas of other sources may use more of the language; those fields are
// checked with the whole.
func TestSchemaWithReferences(t *testing.T) {
	c, err := New(Config{MaxCalls: 9, Tools: []palyra.Tool{{Name: "ref", MaxInput: 1000, InputSchema: json.RawMessage(
		`{"type":"object","$defs":{"n":{"type":"integer"}},"properties":{"a":{"$ref":"#/$defs/n"},"b":{"type":["string","null"]}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	for args, ok := range map[string]bool{
		`{"a":1}`: true, `{"b":null}`: true, `{"a":"x"}`: false, `{}`: false, `{"b":1}`: false,
		`{"a":1,"other":1}`: true,
	} {
		if _, err := admit(c, "ref", args); (err == nil) != ok {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestAdmitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := real(t).Admit(ctx, palyra.Proposal{Tool: "palyra.echo", Arguments: json.RawMessage(`{"text":""}`)}); err == nil {
		t.Error("admitted for a caller who is gone")
	}
}

// Property: no bytes make Admit do anything but admit a clean object or refuse
// with a reason of its own.
func FuzzAdmit(f *testing.F) {
	c := real(f)
	for _, s := range []string{
		`{"text":"a"}`, `{"text":"a","text":"b"}`, `{"path":"a","limit":1e2}`, `[`, `{"a":"\u0000"}`,
		"{\"text\":\"\xff\"}",
	} {
		f.Add("palyra.echo", []byte(s))
		f.Add("palyra.fs.read", []byte(s))
	}
	f.Fuzz(func(t *testing.T, tool string, args []byte) {
		got, err := c.Admit(t.Context(), palyra.Proposal{Tool: palyra.ToolName(tool), Arguments: args})
		if err != nil {
			if e := palyra.AsError(err); e.Reason == palyra.ReasonInternal || e.Remedy == "" {
				t.Fatalf("%q %q: %v", tool, args, err)
			}
			return
		}
		var m map[string]any
		if string(got.Name) != tool || json.Unmarshal(args, &m) != nil || strings.Contains(fmt.Sprint(m), "\x00") {
			t.Fatalf("%q %q admitted as %s", tool, args, got.Name)
		}
	})
}

// A run may lower the budget, never raise it.
func TestARunsOwnBudget(t *testing.T) {
	c := real(t)
	for _, x := range []struct {
		used, most int64
		ok         bool
	}{{0, 1, true}, {1, 1, false}, {63, 0, true}, {64, 0, false}, {63, 100, true}, {64, 100, false}, {0, -1, false}} {
		_, err := c.Admit(t.Context(), palyra.Proposal{
			Proposer: palyra.Proposer{CallsUsed: x.used, CallsMax: x.most}, Tool: "palyra.echo", Arguments: []byte(`{"text":""}`),
		})
		if (err == nil) != x.ok {
			t.Errorf("%d used of %d: %v", x.used, x.most, err)
		}
	}
}
