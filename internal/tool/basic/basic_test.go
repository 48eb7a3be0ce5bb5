package basic

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"palyra"
	"palyra/internal/tool"
)

func plan(name, args string) palyra.Plan {
	return palyra.Plan{Tool: palyra.ToolName(name), Arguments: json.RawMessage(args), Tier: palyra.TierBuiltin}
}

func find(t *testing.T, name string) tool.Tool {
	t.Helper()
	for _, x := range All() {
		if string(x.Spec().Name) == name {
			return x
		}
	}
	t.Fatalf("no tool %s", name)
	return nil
}

func TestSetAcceptsAll(t *testing.T) {
	if _, err := tool.NewSet(All()...); err != nil {
		t.Fatal(err)
	}
	for _, x := range All() {
		if s := x.Spec(); s.Sensitive() || !s.ReadOnly || s.Workspace {
			t.Errorf("%s is not harmless: %+v", s.Name, s)
		}
	}
}

func TestEcho(t *testing.T) {
	e := find(t, "palyra.echo")
	for _, text := range []string{"", "hello", "<a>&\u2028", "日本語 \x01"} {
		args, _ := tool.Encode(echoArgs{Text: text})
		p := plan("palyra.echo", string(args))
		if err := e.Plan(t.Context(), tool.Env{}, &p); err != nil || p.Detail.Summary == "" {
			t.Fatalf("plan: %v, %+v", err, p.Detail)
		}
		out, err := e.Run(t.Context(), tool.Env{}, p)
		var got echoArgs
		if err != nil || json.Unmarshal(out, &got) != nil || got.Text != text {
			t.Errorf("%q: got %s, %v", text, out, err)
		}
	}
}

func TestEchoCounts(t *testing.T) {
	for text, want := range map[string]string{"": "echo 0 bytes", "x": "echo 1 byte", "xy": "echo 2 bytes"} {
		args, _ := tool.Encode(echoArgs{Text: text})
		p := plan("palyra.echo", string(args))
		if err := find(t, "palyra.echo").Plan(t.Context(), tool.Env{}, &p); err != nil || p.Detail.Summary != want {
			t.Errorf("%q, %v", p.Detail.Summary, err)
		}
	}
}

func TestBadArguments(t *testing.T) {
	for _, x := range All() {
		for _, args := range []string{`{"other":1}`, `[]`, `{"text":1}`, `{"duration_ms":"x"}`, ``} {
			p := plan(string(x.Spec().Name), args)
			if err := x.Plan(t.Context(), tool.Env{}, &p); palyra.CodeOf(err) != palyra.Invalid {
				t.Errorf("%s plans %s: %v", x.Spec().Name, args, err)
			}
			if _, err := x.Run(t.Context(), tool.Env{}, p); palyra.CodeOf(err) != palyra.Invalid {
				t.Errorf("%s runs %s: %v", x.Spec().Name, args, err)
			}
		}
	}
}

func TestSleepSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		out, err := find(t, "palyra.sleep").Run(t.Context(), tool.Env{}, plan("palyra.sleep", `{"duration_ms":600000}`))
		if err != nil || string(out) != `{"slept_ms":600000}` || time.Since(began) != 10*time.Minute {
			t.Errorf("%s, %v after %v", out, err, time.Since(began))
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := find(t, "palyra.sleep").Run(ctx, tool.Env{}, plan("palyra.sleep", `{"duration_ms":600000}`))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
