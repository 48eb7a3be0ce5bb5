package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra"
)

// Also one judgement ends, between two policies, and then denies.
func TestOneJudgementEnds(t *testing.T) {
	var text strings.Builder
	text.WriteString(`@id("yes") permit (principal, action, resource);`)
	for i := range 1000 {
		fmt.Fprintf(&text, "@id(\"p%d\") forbid (principal, action, resource) when { false };\n", i)
	}
	b := load(t, text.String())
	for _, c := range []struct {
		after int
		want  palyra.Effect
	}{{10, palyra.Deny}, {1 << 30, palyra.Allow}} {
		asked := 0
		e, err := New(Config{Bundle: b, Snapshot: open(), Stop: func() bool { asked++; return asked > c.after }})
		if err != nil {
			t.Fatal(err)
		}
		v := e.Judge(t.Context(), echo())
		if v.Effect != c.want || c.want == palyra.Deny && (len(v.Errors) == 0 || asked > 30) {
			t.Errorf("stopped after %d: %s %v, asked %d times", c.after, v.Effect, v.Errors, asked)
		}
	}
}

// Reading a bundle ends with whoever wants it, and half of it is none.
func TestReadingEnds(t *testing.T) {
	var text strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&text, "@id(\"p%d\") permit (principal, action, resource);\n", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	b, report := CheckWithin(ctx, map[string]string{"a.cedar": text.String()})
	if b != nil || len(report.Problems) != 1 || report.Digest != "" {
		t.Errorf("%v %+v", b, report)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
}
