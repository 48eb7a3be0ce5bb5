package wire

import (
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

var goodIntent = Intent{
	Nonce: "AAECAwQFBgcICQoLDA0ODw", Time: "2026-11-15T10:00:00.5Z", KeyID: "op-0011",
	Sig: strings.Repeat("A", 86) + "==",
}

func TestIntentHeaderRoundTrip(t *testing.T) {
	s, err := goodIntent.Header()
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := ParseIntent(http.Header{IntentHeader: {s}})
	if err != nil || !ok || got != goodIntent {
		t.Errorf("%+v %v %v", got, ok, err)
	}
	if _, ok, err := ParseIntent(http.Header{}); ok || err != nil {
		t.Errorf("no header: %v %v", ok, err)
	}
}

func TestIntentHeaderRefused(t *testing.T) {
	good, _ := goodIntent.Header()
	with := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for name, vals := range map[string][]string{
		"twice":          {good, good},
		"long":           {good + strings.Repeat(" ", maxIntent)},
		"empty":          {""},
		"not json":       {"nonce=1"},
		"missing":        {with(`"nonce":"AAECAwQFBgcICQoLDA0ODw",`, "")},
		"extra":          {with(`{`, `{"audience":"x",`)},
		"repeated":       {with(`{`, `{"nonce":"AAECAwQFBgcICQoLDA0ODw",`)},
		"renamed":        {with(`"sig"`, `"SIG"`)},
		"number":         {with(`"op-0011"`, `7`)},
		"null":           {with(`"op-0011"`, `null`)},
		"empty key":      {with(`op-0011`, ``)},
		"long key":       {with(`op-0011`, strings.Repeat("k", maxKeyID+1))},
		"short nonce":    {with("AAECAwQFBgcICQoLDA0ODw", "AAEC")},
		"padded nonce":   {with("AAECAwQFBgcICQoLDA0ODw", "AAECAwQFBgcICQoLDA0ODw==")},
		"loose nonce":    {with("AAECAwQFBgcICQoLDA0ODw", "AAECAwQFBgcICQoLDA0ODx")},
		"newline nonce":  {with("AAECAwQFBgcICQoLDA0ODw", `AAECAwQFBgcICQoLDA0O\nDw`)},
		"local time":     {with("10:00:00.5Z", "12:00:00.5+02:00")},
		"trailing zero":  {with("10:00:00.5Z", "10:00:00.50Z")},
		"no time":        {with("2026-11-15T10:00:00.5Z", "")},
		"short sig":      {with(strings.Repeat("A", 86)+"==", "AAAA")},
		"newline in sig": {with(strings.Repeat("A", 86), strings.Repeat("A", 40)+`\n`+strings.Repeat("A", 46))},
		"data after":     {good + "{}"},
	} {
		i, ok, err := ParseIntent(http.Header{IntentHeader: vals})
		if e := palyra.AsError(err); err == nil || !ok || e.Reason != palyra.ReasonBadSignature {
			t.Errorf("%s: accepted %+v (%v, %v)", name, i, ok, err)
		}
	}
}

// Property: what is accepted has the one spelling that Header writes, up to
// white space and order of the four members; nothing hides in it.
func FuzzParseIntent(f *testing.F) {
	good, _ := goodIntent.Header()
	f.Add(good)
	f.Add(`{"nonce":"","time":"","key_id":"","sig":""}`)
	f.Fuzz(func(t *testing.T, s string) {
		i, err := parseIntent(s)
		if err != nil {
			return
		}
		h, err := i.Header()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseIntent(h)
		if err != nil || again != i {
			t.Fatalf("%q → %q: %+v %v", s, h, again, err)
		}
		if len(i.Nonce) != 22 || len(i.Sig) != 88 || i.KeyID == "" || !strings.HasSuffix(i.Time, "Z") {
			t.Fatalf("%q accepted as %+v", s, i)
		}
	})
}

func TestBindCoversEveryField(t *testing.T) {
	base := v1.DecideApprovalRequest{ApprovalId: "A", Answer: "allow", PlanDigest: "sha256:x"}
	a := Access{Method: "palyra.v1.ApprovalsService/DecideApproval"}
	first, err := Bind("state", a, &base, goodIntent)
	if err != nil {
		t.Fatal(err)
	}
	if first.Intent.PlanDigest != "sha256:x" || first.Intent.Audience != "state" || first.Intent.KeyID != goodIntent.KeyID {
		t.Errorf("%+v", first.Intent)
	}
	fields := base.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		m := base.ProtoReflect().New()
		base.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			m.Set(fd, v)
			return true
		})
		if fd.Kind() == protoreflect.StringKind {
			m.Set(fd, protoreflect.ValueOfString("other"))
		} else {
			m.Set(fd, protoreflect.ValueOfInt64(77))
		}
		b, err := Bind("state", a, m.Interface(), goodIntent)
		if err != nil || b.Intent.Body == first.Intent.Body {
			t.Errorf("changing %s leaves the body digest as it was (%v)", fd.Name(), err)
		}
	}
}

func TestAccessOfNeedsOption(t *testing.T) {
	svc := v1.File_palyra_v1_approvals_proto.Services().Get(0)
	md := svc.Methods().ByName("DecideApproval")
	a, ok := AccessOf(connect.Spec{Procedure: "/palyra.v1.ApprovalsService/DecideApproval", Schema: md})
	want := Access{Method: "palyra.v1.ApprovalsService/DecideApproval", Permission: "approvals.decide", Signed: true, People: true}
	if !ok || a != want {
		t.Errorf("%+v %v", a, ok)
	}
	if _, ok := AccessOf(connect.Spec{Procedure: "/x/y"}); ok {
		t.Error("a method without a schema has access")
	}
	if _, ok := AccessOf(connect.Spec{Procedure: "/x/y", Schema: svc}); ok {
		t.Error("a service is not a method")
	}
}

func TestPlanDigest(t *testing.T) {
	if d := PlanDigest(&v1.GetCallRequest{CallId: "x"}); d != "" {
		t.Errorf("%q", d)
	}
	if d := PlanDigest(&v1.DecideApprovalRequest{PlanDigest: "d"}); d != "d" {
		t.Errorf("%q", d)
	}
}
