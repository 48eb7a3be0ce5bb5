package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"palyra"
	"palyra/client"
)

// A client does not connect until it is asked for something, and says what to do where nobody answers.
func Example() {
	home, err := os.MkdirTemp("", "palyra")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(home) }()

	c, err := client.Open(client.Config{Home: home})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	_, err = c.Status(context.Background())
	fmt.Println(palyra.AsError(err).Reason)
	// Output: no_daemon
}

// An agent proposes a call and hears of it while it is under way. A refusal is an outcome with a reason; an
// error means that nobody knows what became of the call.
func ExampleClient_Call() {
	c, err := client.Open(client.Config{Home: os.Getenv("PALYRA_HOME")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	outcome, err := c.Call(context.Background(), client.CallRequest{
		Tool:      palyra.ToolFileRead,
		Arguments: json.RawMessage(`{"path":"go.mod"}`),
		Workspace: ".",
		Key:       "read-go-mod-1", // a repeat with the same key gets the same outcome
	}, func(e client.CallEvent) {
		if e.ApprovalRequested != nil {
			fmt.Println("a person is asked")
		}
	})
	switch {
	case err != nil:
		fmt.Println(err)
	case outcome.Outcome == palyra.OutcomeRefused:
		fmt.Println(outcome.ReasonCode)
	default:
		fmt.Println(outcome.Stdout)
	}
}

// A person answers a question with a key of their own. The digest is that of the plan they saw: an answer to
// another plan is refused.
func ExampleClient_Decide() {
	home := os.Getenv("PALYRA_HOME")
	signer, err := client.LoadSigner(filepath.Join(home, "operator.key"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.Open(client.Config{Home: home, Door: client.OperatorDoor, Signer: signer})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()

	page, err := c.Approvals(context.Background(), client.ApprovalFilter{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range page.Approvals {
		_, err := c.Decide(context.Background(), client.DecideRequest{
			ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest, Reason: "not today",
		})
		fmt.Println(a.ID, err)
	}
}
