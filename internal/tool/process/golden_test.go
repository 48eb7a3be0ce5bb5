package process

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/catalog"
)

var update = flag.Bool("update", false, "write testdata/tools.golden.json anew")

// What models are told about the tool is part of the protocol: a change here is a
// change for everyone who has a prompt or a policy about it.
func TestSpecGolden(t *testing.T) {
	d := driver(t, Config{})
	got, err := json.MarshalIndent(d.Specs(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	const file = "testdata/tools.golden.json"
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the tool differs from %s (%v); if that is meant, run the test with -update:\n%s", file, err, got)
	}
}

func TestSpec(t *testing.T) {
	d := driver(t, Config{Tier: palyra.TierC})
	s, ok := d.Tool(Name)
	if !ok || s.Tier != palyra.TierC || s.ReadOnly || !s.Workspace || !s.Sensitive() || s.MaxInput < 2<<20 || s.MaxInput > 10<<20 {
		t.Errorf("%+v", s)
	}
	if _, ok := d.Tool("palyra.echo"); ok {
		t.Error("knows another tool")
	}
}

// The schema and the arguments have the same fields, at every level.
func TestSchemaNamesEveryArgument(t *testing.T) {
	var doc any
	all := schemaHead + programSchema + inputSchema + publishSchema + roomSchema + agentSchema + limitSchema + schemaTail
	if err := json.Unmarshal([]byte(all), &doc); err != nil {
		t.Fatal(err)
	}
	fields(t, "arguments", doc, reflect.TypeFor[arguments]())
}

// Nobody feeds a background process, sees its terminal or speaks with it, and it alone publishes ports.
func TestStartSchema(t *testing.T) {
	for _, name := range []string{"stdin", "stdin_b64", "stdin_live", "terminal", "agent_socket", "agent_within", "staged", "live"} {
		if strings.Contains(startSchema, `"`+name+`":`) {
			t.Errorf("the schema of %s has %s", palyra.ToolProcessStart, name)
		}
	}
	if !strings.Contains(startSchema, `"publish":`) || strings.Contains(schema, `"publish":`) {
		t.Error("ports are published by the wrong tool")
	}
}

func fields(t *testing.T, where string, doc any, typ reflect.Type) {
	t.Helper()
	m := doc.(map[string]any)
	if m["additionalProperties"] != false {
		t.Errorf("%s is not closed", where)
	}
	props := m["properties"].(map[string]any)
	for i := range typ.NumField() {
		f := typ.Field(i)
		name := f.Tag.Get("json")
		if props[name] == nil {
			t.Errorf("%s: the schema lacks %q", where, name)
			continue
		}
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if ft.Kind() == reflect.Struct {
			fields(t, name, props[name], ft)
		}
		delete(props, name)
	}
	if len(props) != 0 {
		t.Errorf("%s: nothing reads %v", where, props)
	}
}

// The catalog reads the schema, takes what is meant and refuses what is not.
func TestCatalogTakesTheSchema(t *testing.T) {
	c, err := catalog.New(catalog.Config{Tools: driver(t, Config{}).Specs(), MaxCalls: 1})
	if err != nil {
		t.Fatal(err)
	}
	admit := func(args string) error {
		_, err := c.Admit(t.Context(), palyra.Proposal{Tool: Name, Arguments: json.RawMessage(args)})
		return err
	}
	for _, args := range []string{
		`{"command":"touch","args":["x",""],"cwd":"d","env":{"A":"b"},"stdin":"x"}`,
		`{"command":"cat","stdin_b64":"AAE=","timeout_ms":5,"limits":{"cpu_ms":1}}`,
		`{"command":"top","terminal":{"rows":24,"cols":80},"stdin_live":true,"tier":"b"}`,
		`{"script":"echo"}`, `{"command":"curl","egress":["example.org:443"],"tier":"c"}`, `{"command":"top","terminal":{}}`,
	} {
		if err := admit(args); err != nil {
			t.Errorf("%s: %v", args, err)
		}
	}
	for _, args := range []string{
		`{"command":""}`, `{"command":1}`, `{"command":"x","args":"y"}`, `{"command":"x","args":[1]}`, `{"command":"x","shell":true}`,
		`{"command":"x","env":{"A":1}}`, `{"command":"x","env":[]}`, `{"command":"x","tier":"a"}`, `{"command":"x","tier":"B"}`,
		`{"command":"x","terminal":{"rows":0}}`, `{"command":"x","terminal":{"rows":1e9}}`, `{"command":"x","limits":{"wall_ms":1}}`,
		`{"command":"x","limits":{"cpu_ms":1.5}}`, `{"command":"x","timeout_ms":"1"}`, `{"Command":"x"}`, `{"command":"x\u0000"}`,
		`{"command":"x","stdin":null}`, `{"command":"x","args":["` + strings.Repeat("x", maxArg+1) + `"]}`,
	} {
		if err := admit(args); palyra.CodeOf(err) != palyra.Invalid {
			t.Errorf("%s: %v", palyra.Clip(args, 80), err)
		}
	}
}
