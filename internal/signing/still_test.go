package signing

import (
	"strings"
	"testing"

	"palyra"
	"palyra/internal/signwire"
	"palyra/secrets"
)

// A key that an operator takes away, binds otherwise or replaces signs nothing for a run that has it already: neither
// when it is gone before anybody is asked, nor while somebody is.
func TestAKeyIsAskedForAgain(t *testing.T) {
	other, _ := lentKey(t)
	for what, c := range map[string]struct {
		change func(l secrets.Loan) ([]secrets.Loan, error)
		told   string
	}{
		"unbound": {func(secrets.Loan) ([]secrets.Loan, error) {
			return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no binding").WithRemedy("make it")
		}, "there is no binding\nmake it"},
		"removed": {func(secrets.Loan) ([]secrets.Loan, error) { return nil, nil }, "not there any more"},
		"another secret": {func(l secrets.Loan) ([]secrets.Loan, error) {
			l.Secret = "other"
			return []secrets.Loan{l}, nil
		}, "another one than the run was given"},
		"another key bound": {func(l secrets.Loan) ([]secrets.Loan, error) {
			l.Key = other.Key
			return []secrets.Loan{l}, nil
		}, "another one than the run was given"},
		"another value": {func(l secrets.Loan) ([]secrets.Loan, error) {
			l.Value = again(t, other)().Value
			return []secrets.Loan{l}, nil
		}, "another key than the one that was bound"},
	} {
		for _, late := range []bool{false, true} {
			r := newSigningRun(t)
			changed := func() { r.vault = func() ([]secrets.Loan, error) { return c.change(r.lent()) } }
			if late {
				r.during = changed
			} else {
				changed()
			}
			kind, body := r.bring(r.want("ssh", r.line), payloadFrame(commit))
			if kind != signwire.Refusal || !strings.Contains(string(body), c.told) || !strings.Contains(string(body), "\n") {
				t.Errorf("%s, late %v: %c %s", what, late, kind, body)
			}
			if len(r.record) != 0 || late != (len(r.asked) == 1) || len(r.refused) != 1 {
				t.Errorf("%s, late %v: on record %+v, asked %d, told %q", what, late, r.record, len(r.asked), r.refused)
			}
		}
	}
}

// What is asked says for which secret the key's binding is, in the words of the run's own plan.
func TestAQuestionHasThePromiseOfItsKey(t *testing.T) {
	r := newSigningRun(t)
	if kind, body := r.bring(r.want("ssh", r.line), payloadFrame(commit)); kind != signwire.Signature {
		t.Fatalf("%c %s", kind, body)
	}
	l := r.lent()
	if want := secrets.Mechanisms([]secrets.Binding{l.Binding}); r.asked[0].Promise != want[0] {
		t.Errorf("%q is not %q", r.asked[0].Promise, want)
	}
}
