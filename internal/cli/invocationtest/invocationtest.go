// Package invocationtest runs parts of the command without a daemon, for tests: a
// printer on an Invocation of its own, or one command with a home of its own.
package invocationtest

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/questiontest"
)

// Shown runs f with an Invocation and returns its output: text, or JSON that is indented so that
// changes are easy to read.
func Shown(t *testing.T, asJSON bool, f func(*invocation.Invocation) error) string {
	t.Helper()
	var out, errs bytes.Buffer
	inv := &invocation.Invocation{Stdout: &out, Stderr: &errs, Now: sampleNow, JSON: asJSON}
	if err := f(inv); err != nil {
		t.Fatal(err)
	}
	if !asJSON {
		return out.String()
	}
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("not one line: %s", out.String())
	}
	var b bytes.Buffer
	if err := json.Indent(&b, out.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sampleNow() time.Time { return questiontest.SampleNow }

// Printer prints something to w or to the Invocation.
type Printer func(inv *invocation.Invocation, w io.Writer) error

// CheckSafe checks that printers escape poisoned records.
func CheckSafe(t *testing.T, printers map[string]Printer) {
	t.Helper()
	for name, print := range printers {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			inv := &invocation.Invocation{Stdout: &out, Stderr: &errs, Now: sampleNow}
			if err := print(inv, &out); err != nil {
				inv.Finish(err)
			}
			questiontest.CheckSafe(t, name, out.String()+errs.String())
		})
	}
}

// Drive runs a single command, in a home of its own.
func Drive(t *testing.T, home string, asJSON bool, command func(*invocation.Invocation) *cobra.Command, args ...string) (stdout,
	stderr string, err error,
) {
	t.Helper()
	var out, talk bytes.Buffer
	inv := &invocation.Invocation{
		Env:   []string{"HOME=" + home, "PALYRA_HOME=" + filepath.Join(home, "palyra")},
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &talk, Context: t.Context(), JSON: asJSON,
	}
	cmd := command(inv)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&talk)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), talk.String(), err
}
