package palyra_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra"
)

func goFiles() ([]string, error) {
	all, err := filepath.Glob("*.go")
	return slices.DeleteFunc(all, func(n string) bool { return strings.HasSuffix(n, "_test.go") }), err
}

var snake = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// Reasons and codes are protocol: one name each, one spelling each.
func TestReasonsAndCodesAreDistinct(t *testing.T) {
	for _, typ := range []string{
		"Reason", "Code", "Layer", "State", "OutcomeKind", "SubjectType", "Scope", "Surface", "Method",
		"Capability",
	} {
		seen := map[string]string{}
		for name, value := range declared(t, typ) {
			if value == "" || !snake.MatchString(value) {
				t.Errorf("%s %s = %q is not snake_case", typ, name, value)
			}
			if other, dup := seen[value]; dup {
				t.Errorf("%s and %s are both %q", name, other, value)
			}
			seen[value] = name
		}
	}
}

func TestListsAreComplete(t *testing.T) {
	codes := declared(t, "Code")
	if len(palyra.Codes()) != len(codes) {
		t.Errorf("Codes lists %d of %d", len(palyra.Codes()), len(codes))
	}
	for name, value := range codes {
		if !slices.Contains(palyra.Codes(), palyra.Code(value)) {
			t.Errorf("Codes lacks %s", name)
		}
	}
	states := declared(t, "State")
	for name, value := range states {
		if !slices.Contains(palyra.States(), palyra.State(value)) {
			t.Errorf("States lacks %s", name)
		}
	}
}

func TestErrorKeepsWhatItWasGiven(t *testing.T) {
	cause := errors.New("open /secret/path: permission denied")
	base := palyra.Errorf(palyra.Denied, palyra.ReasonPathOutside, "path %q is outside", "../x")
	full := base.WithRemedy("use a path under %s", "the workspace").WithCause(cause)
	if full.Code != palyra.Denied || full.Reason != palyra.ReasonPathOutside || full.Remedy != "use a path under the workspace" {
		t.Errorf("got %+v", full)
	}
	if full.Error() != `path "../x" is outside` {
		t.Errorf("text %q", full.Error())
	}
	if strings.Contains(full.Error(), "/secret/path") {
		t.Error("the cause is shown to callers")
	}
	if !errors.Is(full, cause) {
		t.Error("the cause is lost")
	}
	if base.Remedy != "" || base.Cause != nil {
		t.Error("WithRemedy or WithCause changed the error they were called on")
	}
}

func TestCodeOfAndAsError(t *testing.T) {
	typed := palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "decided")
	wrapped := fmt.Errorf("desk: decide: %w", typed)
	if palyra.CodeOf(wrapped) != palyra.Conflict || palyra.AsError(wrapped) != typed {
		t.Error("a wrapped error is not found")
	}
	plain := errors.New("dial /run/secret.sock: refused")
	if got := palyra.CodeOf(nil); got != "" {
		t.Errorf("no error has the code %q", got)
	}
	if palyra.CodeOf(plain) != palyra.Internal {
		t.Errorf("an error without a code is %s", palyra.CodeOf(plain))
	}
	e := palyra.AsError(plain)
	if e.Reason != palyra.ReasonInternal || strings.Contains(e.Error()+e.Remedy, "secret.sock") || !errors.Is(e, plain) {
		t.Errorf("got %+v", e)
	}
}

func TestRefusalOf(t *testing.T) {
	r := palyra.RefusalOf(palyra.LayerPlan, fmt.Errorf("x: %w", palyra.Errorf(palyra.Invalid, palyra.ReasonPathInvalid, "bad").
		WithRemedy("good")))
	want := palyra.Refusal{Layer: palyra.LayerPlan, Code: palyra.Invalid, Reason: palyra.ReasonPathInvalid, Text: "bad", Remedy: "good"}
	if r.Layer != want.Layer || r.Code != want.Code || r.Reason != want.Reason || r.Text != want.Text || r.Remedy != want.Remedy ||
		r.Policies != nil {
		t.Errorf("got %+v", r)
	}
	r = palyra.RefusalOf(palyra.LayerPlan, errors.New("pq: password authentication failed for user alice"))
	if r.Code != palyra.Internal || strings.Contains(r.Text, "alice") {
		t.Errorf("an unknown error is told to the agent: %+v", r)
	}
}
