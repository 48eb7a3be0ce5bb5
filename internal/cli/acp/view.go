package acp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"palyra"
	"palyra/client"
)

// view is what the editor shows while a person is asked elsewhere.
type view struct {
	call sdk.ToolCallUpdate
	own  bool // the call is of our making, and ends with the view
}

// The two answers of a view. The first does nothing, for the agent could have a program answer in the place of a
// person; a no is as safe as no answer.
const (
	optionElsewhere = "palyra-elsewhere"
	optionWithdraw  = "palyra-withdraw"
)

// dialogGone is the protocol's word for a dialog that was closed with the turn.
var dialogGone = sdk.NewRequestPermissionOutcomeCancelled().Cancelled.Outcome

func viewOptions() []sdk.PermissionOption {
	return []sdk.PermissionOption{
		{OptionId: optionElsewhere, Name: "Answer in a terminal of your own: palyra approvals watch", Kind: sdk.PermissionOptionKindAllowOnce},
		{OptionId: optionWithdraw, Name: "Withdraw it: no", Kind: sdk.PermissionOptionKindRejectOnce},
	}
}

// window shows the open question of one call in the editor.
type window struct {
	p  *Proxy
	n  *talk
	v  view
	no chan<- struct{} // closed when a person withdraws the call

	of    palyra.ApprovalID
	close context.CancelFunc
	once  sync.Once
	wg    sync.WaitGroup
}

func (p *Proxy) newWindow(n *talk, v view, no chan<- struct{}) *window {
	return &window{p: p, n: n, v: v, no: no, close: func() {}}
}

// shut takes away what is shown, and waits for it.
func (w *window) shut() { w.close(); w.wg.Wait() }

// follow shows the question that is open now, and takes away any other.
func (w *window) follow(q *client.ApprovalRequested) {
	if q == nil {
		w.close()
		w.of = ""
		return
	}
	if q.ApprovalID == w.of {
		return
	}
	w.close()
	w.of = q.ApprovalID
	ctx, done := context.WithCancel(context.Background())
	w.close = done
	question := *q
	w.wg.Go(func() { w.show(ctx, question) })
}

const maxTitle = 200

// show shows one question once it has been open for a while, until it is answered or gone.
func (w *window) show(ctx context.Context, q client.ApprovalRequested) {
	t := time.NewTimer(w.p.ViewAfter)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	call := w.v.call
	text := "Palyra asks: " + strings.Join(strings.Fields(palyra.Clip(q.Summary, maxTitle)), " ") + " (approval " + string(q.ApprovalID) + ")"
	call.Title = &text
	if w.v.own {
		defer w.ended(call.ToolCallId)
	}
	raw, err := w.p.editor.ask(ctx, sdk.ClientMethodSessionRequestPermission, sdk.RequestPermissionRequest{
		SessionId: w.n.id, ToolCall: call, Options: viewOptions(),
	})
	var said struct {
		Outcome struct {
			Outcome string `json:"outcome"`
			Option  string `json:"optionId"`
		} `json:"outcome"`
	}
	if err != nil || ctx.Err() != nil || json.Unmarshal(raw, &said) != nil {
		return // nothing was said
	}
	if o := said.Outcome; o.Outcome == dialogGone || o.Outcome == "selected" && o.Option == optionWithdraw {
		w.once.Do(func() { close(w.no) })
	}
}

// ended has the editor show that a call of our making is over.
func (w *window) ended(id sdk.ToolCallId) {
	w.p.editor.tell(sdk.ClientMethodSessionUpdate, sdk.SessionNotification{
		SessionId: w.n.id, Update: sdk.UpdateToolCall(id, sdk.WithUpdateStatus(sdk.ToolCallStatusCompleted)),
	})
}

// say has the editor show a text of ours among those of the agent.
func (p *Proxy) say(n *talk, text string) {
	p.editor.tell(sdk.ClientMethodSessionUpdate, sdk.SessionNotification{
		SessionId: n.id, Update: sdk.UpdateAgentMessageText("[palyra: " + text + "]\n"),
	})
}
