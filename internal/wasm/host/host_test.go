package host

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/wasm"
)

// answers is a gate with one answer, that notes what it was asked.
func answers(o palyra.Outcome, err error, asked *string) Gate {
	return func(_ context.Context, tool palyra.ToolName, arguments json.RawMessage) (palyra.Outcome, error) {
		*asked = string(tool) + " " + string(arguments)
		return o, err
	}
}

func TestRequestsAreCallsOfTheFetchTool(t *testing.T) {
	var asked string
	o := palyra.Outcome{Outcome: palyra.OutcomeFinished, Output: json.RawMessage(
		`{"url":"https://a.example/","status":201,"headers":{"X":"y"},"body":"hi","truncated":true,"bytes":2}`)}
	h := New(answers(o, nil, &asked), nil)
	res, err := h.Web.Request(t.Context(), "a.example", wasm.HTTPRequest{
		Method: "POST", URL: "https://a.example/", Headers: map[string]string{"Authorization": "Bearer {{T}}"}, Body: []byte("x"),
		Secrets: []string{"T"},
	})
	want := `palyra.http.fetch {"url":"https://a.example/","method":"POST","headers":{"Authorization":"Bearer {{T}}"},"body_b64":"eA==",` +
		`"follow":0,"bindings":["T"]}`
	if err != nil || asked != want || res.Status != 201 || string(res.Body) != "hi" || res.Headers["X"] != "y" || !res.Truncated {
		t.Errorf("%+v %v\n%s", res, err, asked)
	}
	o.Output = json.RawMessage(`{"status":200,"body_b64":"/w=="}`)
	if res, err = New(answers(o, nil, &asked), nil).Web.Request(t.Context(), "a.example", wasm.HTTPRequest{}); err != nil ||
		string(res.Body) != "\xff" {
		t.Errorf("%+v %v", res, err)
	}
	for name, o := range map[string]palyra.Outcome{
		"refused": {Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPolicyDenied, Reason: "no", Remedy: "ask"},
		"failed":  {Outcome: palyra.OutcomeFinished, ReasonCode: palyra.ReasonFetchFailed, Reason: "no", Remedy: "ask"},
	} {
		_, err := New(answers(o, nil, &asked), nil).Web.Request(t.Context(), "a.example", wasm.HTTPRequest{})
		if e := palyra.AsError(err); e.Reason != o.ReasonCode || e.Remedy != "ask" {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := New(answers(o, errors.New("x"), &asked), nil)
	if _, err := broken.Web.Request(t.Context(), "a.example", wasm.HTTPRequest{}); err == nil {
		t.Error("no error")
	}
}

func TestToolsAnswerWithTheirOutcome(t *testing.T) {
	var asked string
	o := palyra.Outcome{Outcome: palyra.OutcomeRefused, ReasonCode: palyra.ReasonPolicyDenied, Attestation: &palyra.Envelope{Payload: "large"}}
	b, err := New(answers(o, nil, &asked), nil).Tools.Invoke(t.Context(), "palyra.echo", json.RawMessage(`{"x":1}`))
	var got palyra.Outcome
	if err != nil || json.Unmarshal(b, &got) != nil || got.ReasonCode != palyra.ReasonPolicyDenied || got.Attestation != nil ||
		asked != `palyra.echo {"x":1}` {
		t.Errorf("%s %v %s", b, err, asked)
	}
	o.Stdout = strings.Repeat("x", maxOutcome)
	_, err = New(answers(o, nil, &asked), nil).Tools.Invoke(t.Context(), "palyra.echo", nil)
	if palyra.AsError(err).Reason != wasm.ReasonHostBytes {
		t.Errorf("%v", err)
	}
}
