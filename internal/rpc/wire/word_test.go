package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"palyra"

	v1 "palyra/api/gen/palyra/v1"
)

// pairs lists every word that crosses the wire and the message it travels in.
var pairs = []struct {
	word any
	msg  proto.Message
}{
	{palyra.Position{}, &v1.Position{}},
	{palyra.Tool{}, &v1.Tool{}},
	{palyra.Proposal{}, &v1.Proposal{}},
	{palyra.Plan{}, &v1.Plan{}},
	{palyra.Detail{}, &v1.Detail{}},
	{palyra.Verdict{}, &v1.Verdict{}},
	{palyra.Signature{}, &v1.Signature{}},
	{palyra.Vote{}, &v1.Vote{}},
	{palyra.Decision{}, &v1.Decision{}},
	{palyra.Outcome{}, &v1.Outcome{}},
	{palyra.Call{}, &v1.Call{}},
	{palyra.Prompt{}, &v1.Prompt{}},
	{palyra.Approval{}, &v1.Approval{}},
	{palyra.Lease{}, &v1.Grant{}},
	{palyra.Enforcement{}, &v1.Enforcement{}},
	{palyra.Chunk{}, &v1.CallOutput{}},
	{palyra.Budget{}, &v1.Budget{}},
	{palyra.Run{}, &v1.Run{}},
	{palyra.TapeEntry{}, &v1.TapeEntry{}},
	{palyra.Session{}, &v1.Session{}},
	{palyra.Workspace{}, &v1.Workspace{}},
	{palyra.Agent{}, &v1.Agent{}},
	{palyra.Operator{}, &v1.Operator{}},
	{palyra.Device{}, &v1.Device{}},
	{palyra.Pairing{}, &v1.Pairing{}},
	{palyra.User{}, &v1.User{}},
	{palyra.Token{}, &v1.Token{}},
	{RoleInfo{}, &v1.Role{}},
	{Me{}, &v1.Me{}},
	{palyra.Key{}, &v1.Key{}},
	{palyra.Entry{}, &v1.Entry{}},
	{palyra.Attestation{}, &v1.Attestation{}},
	{Status{}, &v1.Status{}},
	{Head{}, &v1.Head{}},
	{Report{}, &v1.Report{}},
	{Policy{}, &v1.Policy{}},
	{Explanation{}, &v1.Explanation{}},
	{Flip{}, &v1.Flip{}},
	{ReplayReport{}, &v1.ReplayReport{}},
	{ReplayTransition{}, &v1.ReplayTransition{}},
	{ReplayChange{}, &v1.ReplayChange{}},
	{ReplayPrompts{}, &v1.ReplayPrompts{}},
	{ReplayGap{}, &v1.ReplayGap{}},
	{PolicySuggestion{}, &v1.PolicySuggestion{}},
	{SuggestedRule{}, &v1.SuggestedRule{}},
	{palyra.ApprovalFilter{}, &v1.ApprovalFilter{}},
	{palyra.ApprovalPage{}, &v1.ListApprovalsResponse{}},
	{palyra.LeaseFilter{}, &v1.ListGrantsRequest{}},
	{palyra.LeasePage{}, &v1.ListGrantsResponse{}},
	{palyra.CallFilter{}, &v1.ListCallsRequest{}},
	{CallPage{}, &v1.ListCallsResponse{}},
	{palyra.RunFilter{}, &v1.ListRunsRequest{}},
	{RunPage{}, &v1.ListRunsResponse{}},
	{palyra.SessionFilter{}, &v1.ListSessionsRequest{}},
	{SessionPage{}, &v1.ListSessionsResponse{}},
}

// Property: a word that goes through its message, through the binary wire
// format and through the JSON of the protocol comes back the same, and so do
// its digests.
func TestWordRoundTrip(t *testing.T) {
	for _, p := range pairs {
		t.Run(reflect.TypeOf(p.word).Name(), rapid.MakeCheck(func(t *rapid.T) {
			in := reflect.New(reflect.TypeOf(p.word))
			fill(t, in.Elem())
			out := reflect.New(reflect.TypeOf(p.word))
			if err := ToWord(across(t, in.Interface(), p.msg), out.Interface()); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(in.Elem().Interface(), out.Elem().Interface(), cmpopts.EquateEmpty()); d != "" {
				t.Fatal(d)
			}
			same(t, in.Elem().Interface(), out.Elem().Interface())
		}))
	}
}

// across carries a word over both encodings of the protocol.
func across(t *rapid.T, word any, like proto.Message) proto.Message {
	t.Helper()
	m := like.ProtoReflect().New().Interface()
	if err := FromWord(word, m); err != nil {
		t.Fatal(err)
	}
	bin, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	m2 := like.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(bin, m2); err != nil {
		t.Fatal(err)
	}
	text, err := Codec{}.Marshal(m2)
	if err != nil {
		t.Fatal(err)
	}
	m3 := like.ProtoReflect().New().Interface()
	if err := (Codec{}).Unmarshal(text, m3); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if !proto.Equal(m, m3) {
		t.Fatalf("JSON changed the message: %s", text)
	}
	return m3
}

// same compares what is signed about a word.
func same(t *rapid.T, a, b any) {
	t.Helper()
	digest := func(v any) (string, error) {
		switch v := v.(type) {
		case palyra.Plan:
			d, err := v.Digest()
			return string(d), err
		case palyra.Prompt:
			d, err := v.Digest()
			return string(d), err
		case palyra.Outcome:
			b, err := v.Marshal()
			return string(b), err
		}
		return "", nil
	}
	da, erra := digest(a)
	db, errb := digest(b)
	if erra != nil || errb != nil || da != db {
		t.Fatalf("%q (%v) became %q (%v)", da, erra, db, errb)
	}
}

var texts = rapid.OneOf(
	rapid.SampledFrom([]string{"", "a", "<b>&\u2028", "é\u202e\u200b", "line\nline", `"\`}),
	rapid.StringN(0, 8, 24),
)

var jsons = rapid.SampledFrom([]string{
	`{"n":9007199254740993,"f":1.0e10,"s":"<&>\u2028"}`, `{}`, `[1,"a",null,true]`, `"text"`, `0.10`,
	"{\"b\":1,\"a\":[{\"x\":\"\u00e9\"}]}",
})

var values = rapid.OneOf(
	rapid.Just[any](json.Number("9007199254740993")), rapid.Just[any]("x<y"), rapid.Just[any](true), rapid.Just[any](nil),
	rapid.Just[any]([]any{json.Number("1"), map[string]any{"k": "v"}}),
)

// fill sets every journaled field of a word to something allowed.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		if rapid.Bool().Draw(t, "zero") {
			return
		}
		sec := rapid.Int64Range(-62135596799, 253402300799).Draw(t, "sec")
		nsec := rapid.Int64Range(0, 999999999).Draw(t, "nsec")
		v.Set(reflect.ValueOf(time.Unix(sec, nsec).UTC()))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(jsons.Draw(t, "json"))))
		return
	case palyra.Effect:
		v.Set(reflect.ValueOf(palyra.Effect(rapid.IntRange(0, 2).Draw(t, "effect"))))
		return
	case map[string]any:
		v.Set(reflect.ValueOf(rapid.MapOfN(texts, values, 0, 3).Draw(t, "map")))
		return
	case []byte:
		v.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "bytes"))
		return
	case palyra.TapeEntry:
		fillEntry(t, v)
		return
	}
	fillKind(t, v)
}

// fillEntry sets exactly one of an entry's kinds.
func fillEntry(t *rapid.T, v reflect.Value) {
	var kinds []int
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Pointer {
			kinds = append(kinds, i)
			continue
		}
		fill(t, v.Field(i))
	}
	one := v.Field(rapid.SampledFrom(kinds).Draw(t, "kind"))
	one.Set(reflect.New(one.Type().Elem()))
	fill(t, one.Elem())
}

func fillKind(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts.Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, "int"))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "uint")))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" {
				fill(t, v.Field(i))
			}
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 2).Draw(t, "len")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Map:
		names := rapid.SliceOfNDistinct(texts, 0, 3, rapid.ID[string]).Draw(t, "map")
		if len(names) == 0 { // the wire has no empty maps, only missing ones
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for _, name := range names {
			value := reflect.New(v.Type().Elem()).Elem()
			fill(t, value)
			v.SetMapIndex(reflect.ValueOf(name), value)
		}
	default:
		t.Fatalf("no generator for %s", v.Type())
	}
}

// A word that grows a member its message does not have must fail loudly, not
// lose it.
func TestWordWithoutField(t *testing.T) {
	type wider struct {
		palyra.Position
		More string `json:"more"`
	}
	if err := FromWord(wider{More: "x"}, &v1.Position{}); err == nil {
		t.Error("a member was lost on the way out")
	}
	var narrow struct {
		Seq int64 `json:"seq"`
	}
	if err := ToWord(&v1.Position{Seq: 1, Leaf: "x"}, &narrow); err == nil {
		t.Error("a field was lost on the way in")
	}
}

func TestToWordRefusesBadJSONText(t *testing.T) {
	var p palyra.Plan
	if err := ToWord(&v1.Plan{Arguments: `{"a":`}, &p); err == nil {
		t.Error("a broken JSON text passed")
	}
}

func TestKnown(t *testing.T) {
	strange := append(mustMarshal(t, &v1.GetCallRequest{CallId: "x"}), 0xfa, 0x7f, 1, 'y') // field 2047
	m := &v1.GetCallRequest{}
	if err := proto.Unmarshal(strange, m); err != nil {
		t.Fatal(err)
	}
	if err := Known(m); palyra.CodeOf(err) != palyra.Invalid {
		t.Errorf("unknown field: %v", err)
	}
	if _, err := Fields(m); err == nil {
		t.Error("an unknown field was signed over")
	}
	inner := &v1.ExportApprovalsRequest{Filter: &v1.ApprovalFilter{}}
	inner.Filter.ProtoReflect().SetUnknown([]byte{0xfa, 0x7f, 1, 'y'})
	if Known(inner) == nil {
		t.Error("an unknown field inside passed")
	}
	list := &v1.ListToolsResponse{Tools: []*v1.Tool{{}}}
	list.Tools[0].ProtoReflect().SetUnknown([]byte{0xfa, 0x7f, 1, 'y'})
	if Known(list) == nil {
		t.Error("an unknown field in a list passed")
	}
	if err := Known(&v1.Status{Features: map[string]string{"a": "b"}}); err != nil {
		t.Error(err)
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFieldsArePopulatedOnes(t *testing.T) {
	f, err := Fields(&v1.DecideApprovalRequest{ApprovalId: "A", TtlMs: 1 << 60, Reason: "<r>"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"approval_id": "A", "ttl_ms": json.Number("1152921504606846976"), "reason": "<r>"}
	if d := cmp.Diff(want, f); d != "" {
		t.Error(d)
	}
}

func TestCodecIn(t *testing.T) {
	for _, in := range []string{
		`{"tool":"t","arguments":{"a":1.0},"timeoutMs":"5","noWait":true}`,
		`{"tool":"t","arguments":"{\"a\":1.0}","timeout_ms":5,"no_wait":true,"session":null}`,
	} {
		var m v1.CallToolRequest
		if err := (Codec{}).Unmarshal([]byte(in), &m); err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		want := &v1.CallToolRequest{Tool: "t", Arguments: `{"a":1.0}`, TimeoutMs: 5, NoWait: true}
		if !proto.Equal(&m, want) {
			t.Errorf("%s: %v", in, &m)
		}
	}
	for _, in := range []string{
		``, `null`, `[]`, `{`, `{}{}`, `{"tool":1}`, `{"tools":"x"}`, `{"tool":"a","tool":"b"}`, `{"timeout_ms":1.5}`,
		`{"timeout_ms":99999999999999999999}`, `{"timeoutMs":1,"timeout_ms":1}`, `{"no_wait":"yes"}`, `{"arguments":5}`,
		"{\"tool\":\"\xff\"}", `{"TOOL":"x"}`, `{"tool":{}}`,
	} {
		if err := (Codec{}).Unmarshal([]byte(in), &v1.CallToolRequest{}); err == nil {
			t.Errorf("%q accepted", in)
		}
	}
	for in, m := range map[string]proto.Message{
		`{"accepted":{},"outcome":{}}`:       &v1.CallToolResponse{},
		`{"since":"yesterday"}`:              &v1.ApprovalFilter{},
		`{"chunk":"!"}`:                      &v1.ExportJournalResponse{},
		`{"tools":[null]}`:                   &v1.ListToolsResponse{},
		`{"tools":{}}`:                       &v1.ListToolsResponse{},
		`{"features":{"a":"1","a":"2"}}`:     &v1.Status{},
		`{"mode":4294967296}`:                &v1.Input{},
		`{"mode":-1}`:                        &v1.Input{},
		`{"policies":["a",null]}`:            &v1.Outcome{},
		`{"since":"2026-01-01T00:00:00"}`:    &v1.ApprovalFilter{},
		`{"filter":{"limit":true}}`:          &v1.ListApprovalsRequest{},
		`{"filter":{"unheard_of":{"a":[]}}}`: &v1.ListApprovalsRequest{},
	} {
		if err := (Codec{}).Unmarshal([]byte(in), m); err == nil {
			t.Errorf("%s accepted", in)
		}
	}
}

func TestCodecNotAMessage(t *testing.T) {
	if _, err := (Codec{}).Marshal(3); err == nil {
		t.Error("marshalled a number")
	}
	if err := (Codec{}).Unmarshal([]byte(`{}`), new(int)); err == nil {
		t.Error("unmarshalled into a number")
	}
}

// Property: whatever the codec accepts, it writes in a form that it reads back
// as the same message; and no member is dropped silently.
func FuzzCodec(f *testing.F) {
	f.Add([]byte(`{"tool":"t","arguments":{"a":1}}`))
	f.Add([]byte(`{"timeoutMs":"7","arguments":"x"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again v1.CallToolRequest
		if (Codec{}).Unmarshal(b, &m) != nil {
			return
		}
		out, err := Codec{}.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		if err := (Codec{}).Unmarshal(out, &again); err != nil || !proto.Equal(&m, &again) {
			t.Fatalf("%q → %q: %v", b, out, err)
		}
		if strings.Contains(string(b), "unheard_of") && !strings.Contains(string(out), "unheard_of") {
			t.Fatalf("%q lost a member", b)
		}
	})
}

// An entry is exactly one kind of thing, on the wire too.
func TestEntryOfTwoKinds(t *testing.T) {
	e := palyra.TapeEntry{Run: "R", Seq: 1, ModelText: &palyra.TapeText{Text: "x"}, ToolGranted: &palyra.TapeGranted{Call: "C"}}
	if err := FromWord(e, &v1.TapeEntry{}); err == nil {
		t.Error("an entry of two kinds crossed")
	}
}

// Every kind of entry has its message, under its own name: one that the tape
// learns and the wire does not would end every stream.
func TestEveryKindOfEntryTravels(t *testing.T) {
	kinds := 0
	for i := range reflect.TypeFor[palyra.TapeEntry]().NumField() {
		f := reflect.TypeFor[palyra.TapeEntry]().Field(i)
		if f.Type.Kind() != reflect.Pointer {
			continue
		}
		kinds++
		in := reflect.New(reflect.TypeFor[palyra.TapeEntry]()).Elem()
		in.Field(i).Set(reflect.New(f.Type.Elem()))
		m := &v1.TapeEntry{}
		if err := FromWord(in.Interface(), m); err != nil || m.GetEvent() == nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	if oneof := (&v1.TapeEntry{}).ProtoReflect().Descriptor().Oneofs().ByName("event"); oneof.Fields().Len() != kinds {
		t.Errorf("%d kinds of entries, %d messages", kinds, oneof.Fields().Len())
	}
}

// A message in a stream is held to the access of the method whose request it is.
func TestInner(t *testing.T) {
	for _, c := range []struct {
		msg  *v1.RunStreamRequest
		want Access
	}{
		{
			&v1.RunStreamRequest{Message: &v1.RunStreamRequest_ToolApprovalResponse{ToolApprovalResponse: &v1.DecideApprovalRequest{}}},
			Access{Method: "palyra.v1.ApprovalsService/DecideApproval", Permission: "approvals.decide", Signed: true, People: true},
		},
		{
			&v1.RunStreamRequest{Message: &v1.RunStreamRequest_Start{Start: &v1.StartRunRequest{}}},
			Access{Method: "palyra.v1.RunService/StartRun", Permission: "runs.start", Signed: true, People: true, Agents: true},
		},
		{
			&v1.RunStreamRequest{Message: &v1.RunStreamRequest_Cancel{Cancel: &v1.CancelRunRequest{}}},
			Access{Method: "palyra.v1.RunService/CancelRun", Permission: "runs.cancel", Signed: true, People: true, Agents: true},
		},
		{
			&v1.RunStreamRequest{Message: &v1.RunStreamRequest_Attach{Attach: &v1.AttachRunRequest{}}},
			Access{Method: "palyra.v1.RunService/AttachRun", Permission: "runs.view", People: true, Agents: true},
		},
	} {
		got, inner, ok := Inner(c.msg)
		if !ok || got != c.want || inner == nil {
			t.Errorf("%v: %+v %v", c.msg, got, ok)
		}
	}
	if _, _, ok := Inner(&v1.RunStreamRequest{Intent: "x"}); ok {
		t.Error("an empty message has an access")
	}
	// Every message that the stream carries belongs to a method.
	oneof := (&v1.RunStreamRequest{}).ProtoReflect().Descriptor().Oneofs().ByName("message")
	for i := range oneof.Fields().Len() {
		m := &v1.RunStreamRequest{}
		m.ProtoReflect().Mutable(oneof.Fields().Get(i))
		if _, _, ok := Inner(m); !ok {
			t.Errorf("%s belongs to no method", oneof.Fields().Get(i).Name())
		}
	}
}
