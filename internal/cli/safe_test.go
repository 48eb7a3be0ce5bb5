package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/client/evidence"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/screen"
)

// Whatever the daemon, or whoever speaks through it, puts into a record: what
// reaches the terminal is text.
func TestEveryPrinterMakesTextSafe(t *testing.T) {
	var inv *invocation.Invocation
	for name, print := range map[string]func(io.Writer) error{
		"status": func(w io.Writer) error { printStatus(inv, w, questiontest.Poisoned[client.Status]()); return nil },
		"call": func(w io.Writer) error {
			printCall(w, questiontest.Poisoned[palyra.Call](), questiontest.Hostile)
			return nil
		},
		"predicate": func(w io.Writer) error { printPredicate(w, questiontest.Poisoned[palyra.Attestation]()); return nil },
		"attest": func(w io.Writer) error {
			printAttestReport(w, questiontest.Poisoned[evidence.AttestationReport]())
			return nil
		},
		"lease":     func(io.Writer) error { return printLease(inv, questiontest.Poisoned[palyra.Lease]()) },
		"approvals": func(io.Writer) error { return printApprovals(inv, questiontest.Poisoned[client.ApprovalPage]()) },
		"view": func(w io.Writer) error {
			execute.ViewApproval(inv, w, questiontest.Poisoned[palyra.Approval](), questiontest.Hostile)
			return nil
		},
		"entry": func(w io.Writer) error {
			_, err := io.WriteString(w, entryLine(questiontest.Poisoned[palyra.Entry]()))
			return err
		},
		"tools":   func(w io.Writer) error { printTools(w, questiontest.Poisoned[[]palyra.Tool](), 80); return nil },
		"watched": func(w io.Writer) error { printWatched(inv, w, questiontest.Poisoned[palyra.Approval]()); return nil },
		"settled": func(w io.Writer) error {
			_, err := io.WriteString(w, settled(questiontest.Poisoned[palyra.Approval]()))
			return err
		},
		"reach": func(w io.Writer) error {
			_, err := io.WriteString(w, reachText(questiontest.Poisoned[client.DecideRequest]()))
			return err
		},
		"block": func(w io.Writer) error {
			screen.Block(w, "Heading", questiontest.Hostile+"\n"+questiontest.Hostile)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			inv = &invocation.Invocation{Stdout: &out, Stderr: &errs, Now: func() time.Time { return questiontest.SampleNow }}
			if err := print(&out); err != nil {
				inv.Finish(err)
			}
			questiontest.CheckSafe(t, name, out.String()+errs.String())
		})
	}
}

// JSON keeps every character, in escapes that mean the same.
func TestJSONIsSafeAndTrue(t *testing.T) {
	for name, v := range map[string]any{
		"approval": approvalOf(questiontest.Poisoned[palyra.Approval]()), "lease": questiontest.Poisoned[palyra.Lease](), "export": goodExport{true, questiontest.Poisoned[evidence.ApprovalsReport]()},
		"failure": map[string]exit.Message{"error": questiontest.Poisoned[exit.Message]()},
	} {
		raw, err := screen.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		questiontest.CheckSafe(t, name, string(raw))
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
