package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/screen"
)

// hostile is a text that nobody should see as it is.
const hostile = "x\x1b[2J\r\u202e\u200b\u009b\xff p\u0430ypal\tz"

// poison fills every string that can be reached from v with hostile text, and
// every list and map with one entry.
func poison(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(questiontest.SampleNow))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				poison(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			raw, _ := json.Marshal(map[string]string{"k": "\x1b\u202e\u009b"})
			v.SetBytes(raw)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			poison(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		poison(key)
		poison(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		poison(v.Elem())
	case reflect.Interface:
		v.Set(reflect.ValueOf(hostile))
	}
}

func poisoned[T any]() T {
	var x T
	poison(reflect.ValueOf(&x).Elem())
	return x
}

// checkSafe fails on anything a terminal could take for a command, and on text
// that is not text.
func checkSafe(t *testing.T, name, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Errorf("%s: not UTF-8: %q", name, out)
	}
	for _, r := range out {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%s: %U in %q", name, r, out)
			return
		}
	}
	if strings.Contains(out, "p\u0430ypal") {
		t.Errorf("%s: a look-alike passed: %q", name, out)
	}
	if out == "" {
		t.Errorf("%s: nothing was printed", name)
	}
}

// Whatever the daemon, or whoever speaks through it, puts into a record: what
// reaches the terminal is text.
func TestEveryPrinterMakesTextSafe(t *testing.T) {
	var inv *invocation.Invocation
	for name, print := range map[string]func(io.Writer) error{
		"status":    func(w io.Writer) error { printStatus(inv, w, poisoned[client.Status]()); return nil },
		"call":      func(w io.Writer) error { printCall(w, poisoned[palyra.Call](), hostile); return nil },
		"run":       func(w io.Writer) error { printRun(w, poisoned[palyra.Run]()); return nil },
		"runs":      func(io.Writer) error { return printRuns(inv, poisoned[client.RunPage]()) },
		"tape":      func(io.Writer) error { return tellAll(inv, poisonedTape()) },
		"why":       func(w io.Writer) error { printWhy(w, poisoned[whyAnswer]()); return nil },
		"predicate": func(w io.Writer) error { printPredicate(w, poisoned[palyra.Attestation]()); return nil },
		"attest":    func(w io.Writer) error { printAttestReport(w, poisoned[evidence.AttestationReport]()); return nil },
		"lease":     func(io.Writer) error { return printLease(inv, poisoned[palyra.Lease]()) },
		"approvals": func(io.Writer) error { return printApprovals(inv, poisoned[client.ApprovalPage]()) },
		"view":      func(w io.Writer) error { viewApproval(inv, w, poisoned[palyra.Approval](), hostile); return nil },
		"entry":     func(w io.Writer) error { _, err := io.WriteString(w, entryLine(poisoned[palyra.Entry]())); return err },
		"tools":     func(w io.Writer) error { printTools(w, poisoned[[]palyra.Tool](), 80); return nil },
		"watched":   func(w io.Writer) error { printWatched(inv, w, poisoned[palyra.Approval]()); return nil },
		"settled":   func(w io.Writer) error { _, err := io.WriteString(w, settled(poisoned[palyra.Approval]())); return err },
		"reach": func(w io.Writer) error {
			_, err := io.WriteString(w, reachText(poisoned[client.DecideRequest]()))
			return err
		},
		"block":      func(w io.Writer) error { screen.Block(w, "Heading", hostile+"\n"+hostile); return nil },
		"policyFile": func(io.Writer) error { return printPolicyFile(inv, client.Policy{}, hostile) },
		"handOver": func(io.Writer) error {
			return handOver(inv, poisoned[palyra.Agent](), palyra.NewSecret([]byte("tok")), "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			inv = &invocation.Invocation{Stdout: &out, Stderr: &errs, Now: func() time.Time { return questiontest.SampleNow }}
			if err := print(&out); err != nil {
				inv.Finish(err)
			}
			checkSafe(t, name, out.String()+errs.String())
		})
	}
}

// The same for what is said while a call waits and when it ends.
func TestEveryWordOfACallIsSafe(t *testing.T) {
	var errs bytes.Buffer
	w := &waiter{inv: &invocation.Invocation{Stderr: &errs, Stdout: &errs, Now: func() time.Time { return questiontest.SampleNow }}}
	w.news(t.Context(), client.CallEvent{Accepted: &client.CallAccepted{CallID: hostile}})
	w.cancelling(hostile)
	r, s := poisoned[client.ApprovalRequested](), poisoned[client.ApprovalResolved]()
	w.news(t.Context(), client.CallEvent{ApprovalRequested: &r})
	w.news(t.Context(), client.CallEvent{ApprovalResolved: &s})
	o := poisoned[palyra.Outcome]()
	o.Outcome = palyra.OutcomeRefused
	printEnding(w.inv, o)
	o = palyra.Outcome{Outcome: palyra.OutcomeFinished, CallID: hostile}
	printEnding(w.inv, o)
	checkSafe(t, "waiting", errs.String())
}

// JSON keeps every character, in escapes that mean the same.
func TestJSONIsSafeAndTrue(t *testing.T) {
	for name, v := range map[string]any{
		"approval": approvalOf(poisoned[palyra.Approval]()), "lease": poisoned[palyra.Lease](), "export": goodExport{true, poisoned[evidence.ApprovalsReport]()},
		"failure": map[string]exit.Message{"error": poisoned[exit.Message]()},
	} {
		raw, err := screen.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		checkSafe(t, name, string(raw))
		var back, want any
		plain, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(raw, &back) != nil || json.Unmarshal(plain, &want) != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%s: the JSON means something else: %s", name, raw)
		}
	}
}
