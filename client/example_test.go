package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
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

// A program that stands between a person and a call follows it: it learns the call's id, says what the call waits
// for, survives a restart of the daemon, and cancels the call when the person gives up.
func ExampleFollow() {
	c, err := client.Open(client.Config{Home: os.Getenv("PALYRA_HOME")})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	call := client.Follow(c, client.CallRequest{
		Tool:      palyra.ToolFileRead,
		Arguments: json.RawMessage(`{"path":"go.mod"}`),
		Workspace: ".",
		Key:       "read-go-mod-2", // by which it is found again, if the daemon goes away before the call has an id
	}, client.FollowOptions{
		Watch: func(e client.CallEvent) {
			switch {
			case e.ApprovalRequested != nil:
				fmt.Println("waiting for a person:", e.ApprovalRequested.Summary)
			case e.Running != nil:
				fmt.Println("it runs")
			}
		},
		Cancelling: func(id palyra.CallID) { fmt.Println("cancelling", id) },
		Lost:       func(error) { fmt.Println("the daemon is away") },
	})
	outcome, err := call.Wait(ctx) // the end of ctx cancels the call; call.Close() would leave it
	fmt.Println(outcome.Outcome, err)
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
