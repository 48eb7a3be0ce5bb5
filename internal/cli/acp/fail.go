package acp

import (
	"errors"
	"fmt"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
)

// Codes of errors in ACP and JSON-RPC.
const (
	codeRefused  = -32001
	codeNotFound = -32002 // ACP: no such resource
	codeMethod   = -32601
	codeParams   = -32602
)

// refusal is an error of this program's own.
func refusal(format string, args ...any) *sdk.RequestError {
	return &sdk.RequestError{Code: codeRefused, Message: "palyra: refused: " + fmt.Sprintf(format, args...)}
}

func badParams(format string, args ...any) *sdk.RequestError {
	return &sdk.RequestError{Code: codeParams, Message: "palyra: " + fmt.Sprintf(format, args...)}
}

// wireError is any error as the other side gets it: with its reason and remedy, and without what only this side may know.
func wireError(err error) *sdk.RequestError {
	if err == nil {
		return nil
	}
	if r := (*sdk.RequestError)(nil); errors.As(err, &r) {
		return r
	}
	reason, remedy, text := explained(err)
	return &sdk.RequestError{
		Code: codeRefused, Message: "palyra: " + text, Data: map[string]string{"reason_code": string(reason), "remedy": remedy},
	}
}

// explained is an error of the client as an agent may read it: it does not say where the daemon listens.
func explained(err error) (reason palyra.Reason, remedy, text string) {
	e := palyra.AsError(err)
	reason, remedy, text = e.Reason, e.Remedy, e.Text
	switch e.Reason {
	case client.ReasonNoDaemon:
		text, remedy = "the daemon does not answer, so nothing passes", "have a person start it with 'palyra up'"
	case client.ReasonOutOfReach:
		text, remedy = "this program may not connect to the daemon", "have a person start it outside of another sandbox"
	}
	return reason, remedy, text + " (" + string(reason) + ")" + remedyText(remedy)
}

func remedyText(remedy string) string {
	if remedy == "" {
		return ""
	}
	return "; remedy: " + remedy
}

// refused is an outcome that brought nothing back, as text.
func refused(o palyra.Outcome) string {
	text := string(o.Outcome)
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text + " (" + string(o.ReasonCode) + ", call " + string(o.CallID) + ")" + remedyText(o.Remedy)
}

// outcomeError is such an outcome as an error; nil for one that finished.
func outcomeError(o palyra.Outcome) error {
	if o.Outcome == palyra.OutcomeFinished && o.ReasonCode == "" {
		return nil
	}
	code := codeRefused
	if o.ReasonCode == palyra.ReasonFileNotFound {
		code = codeNotFound
	}
	return &sdk.RequestError{Code: code, Message: "palyra: " + refused(o), Data: map[string]string{
		"reason_code": string(o.ReasonCode), "remedy": o.Remedy, "call_id": string(o.CallID),
	}}
}
