package tools

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc/wire"
)

// news tells a client what becomes of its call. A client that is gone hears nothing, and the call does not care.
type news struct {
	send     func(*v1.CallToolResponse) error
	asked    palyra.ApprovalID // the approval the client was told of
	resolved bool
	accepted bool // the client knows its call
	gone     bool // the client is
}

// tell turns a durable event into news, where it is any.
func (n *news) tell(c *palyra.Call, e palyra.Event) {
	switch e := e.(type) {
	case palyra.CallProposed:
		n.accept(e.Call, e.Session)
	case palyra.ApprovalRequested:
		n.ask(&v1.CallApprovalRequested{
			ApprovalId: string(e.Approval), PlanDigest: string(e.Plan), Summary: e.Record.Prompt.Summary,
			ExpiresAt: timestamppb.New(e.ExpiresAt),
		})
	case palyra.ApprovalJoined:
		n.ask(&v1.CallApprovalRequested{
			ApprovalId: string(e.Approval), PlanDigest: string(c.Digest), Summary: c.Detail.Summary, Joined: true,
		})
	case palyra.CallJudged:
		if e.Again {
			n.resolve(c)
		}
	case palyra.CallRefused:
		n.resolve(c)
	}
}

// accept tells once that the call is on record.
func (n *news) accept(call palyra.CallID, session palyra.SessionID) {
	if n.accepted {
		return
	}
	n.accepted = true
	n.say(&v1.CallToolResponse{Event: &v1.CallToolResponse_Accepted{
		Accepted: &v1.CallAccepted{CallId: string(call), SessionId: string(session)},
	}})
}

// end tells the outcome, which comes last.
func (n *news) end(out palyra.Outcome, err error) error {
	if err != nil {
		return err
	}
	msg := &v1.Outcome{}
	if err := wire.FromWord(out, msg); err != nil {
		return err
	}
	return n.send(&v1.CallToolResponse{Event: &v1.CallToolResponse_Outcome{Outcome: msg}})
}

func (n *news) ask(m *v1.CallApprovalRequested) {
	n.asked, n.resolved = palyra.ApprovalID(m.GetApprovalId()), false
	n.say(&v1.CallToolResponse{Event: &v1.CallToolResponse_ApprovalRequested{ApprovalRequested: m}})
}

// resolve tells once how the question was settled that the client was told of.
// One that a lease took the place of is settled by the answer behind that.
func (n *news) resolve(c *palyra.Call) {
	d := c.Decision
	mine := d.Approval == n.asked || d.Reused && c.Approval == n.asked
	if !mine || n.resolved || n.asked == "" || d.Answer == palyra.AnswerPending {
		return
	}
	n.resolved = true
	n.say(&v1.CallToolResponse{Event: &v1.CallToolResponse_ApprovalResolved{ApprovalResolved: &v1.CallApprovalResolved{
		ApprovalId: string(n.asked), Answer: string(d.Answer), Scope: string(d.Scope), By: string(d.By), Reason: d.Reason,
	}}})
}

// run tells that the call runs.
func (n *news) run(*palyra.Call) {
	n.say(&v1.CallToolResponse{Event: &v1.CallToolResponse_Running{Running: &v1.CallRunning{}}})
}

// print tells what the call printed.
func (n *news) print(c palyra.Chunk) {
	n.say(&v1.CallToolResponse{Event: &v1.CallToolResponse_Output{
		Output: &v1.CallOutput{Stream: c.Stream, Offset: c.Offset, Data: c.Data},
	}})
}

// say sends to a client that still listens. One that did not take a message in time is not waited for again.
func (n *news) say(m *v1.CallToolResponse) {
	if !n.gone {
		n.gone = n.send(m) != nil
	}
}
