package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/access"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

func devicePairCommand(inv *invocation.Invocation) *cobra.Command {
	var principal, role string
	var noQR bool
	cmd := &cobra.Command{
		Use: "pair", Short: "Show a code with which another machine becomes a device", Args: syntax.Takes(),
		Long: "Shows an 8-digit PIN and a QR code, both good for two minutes and five tries. Type or\n" +
			"scan it on the other machine ('palyra device join'). When that machine has proven that\n" +
			"it knows the code you are shown its name, address and key, and asked. Nothing is paired\n" +
			"before you say yes. Ctrl-C withdraws the code. With --json there is one object per line,\n" +
			"the code in the first, and the answer is given elsewhere ('palyra approvals decide').",
		Example: "  palyra device pair\n  palyra device pair --role viewer\n  palyra device pair --for user:bob --role approver",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			w := &pairWatch{inv: inv, asker: execute.NewAsker(inv, "withdraws the code"), ctx: ctx, noQR: noQR}
			err := c.PairDevice(ctx, palyra.Principal(principal), palyra.Role(role), w.see)
			w.leave()
			if err != nil {
				return w.withdrawn(err)
			}
			return w.end()
		}),
	}
	cmd.Flags().StringVar(&principal, "for", "", "whose device it is to be, as user:NAME (default: yours)")
	cmd.Flags().StringVar(&role, "role", "", "the most that it may do: approver, viewer, operator, admin, owner, auditor (default approver)")
	cmd.Flags().BoolVar(&noQR, "no-qr", false, "print the PIN and the code's text only")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(access.RoleNames, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("for", access.CompleteUsers(inv))
	return cmd
}

// pairTries is how often a code may be tried.
const pairTries = 5

// pairWatch shows a person the progress of a pairing.
type pairWatch struct {
	inv   *invocation.Invocation
	asker *execute.Asker // asks the question at this terminal
	ctx   context.Context
	noQR  bool
	link  string // of a browser: where it signs in; empty: another machine
	door  string // and by which door it comes
	last  palyra.Pairing
}

// see handles every change of the pairing.
func (w *pairWatch) see(p palyra.Pairing) error {
	before := w.last
	w.last = p
	if w.inv.JSON {
		return w.inv.PrintJSON(p)
	}
	switch {
	case before.ID == "":
		w.offer(p)
	case p.State == palyra.PairingProven && p.Approval != "" && before.Approval == "":
		w.ask(p)
	case p.State != palyra.PairingProven && before.Approval != "":
		w.leave() // answered, here or elsewhere, or over
	case p.Tries > before.Tries:
		w.inv.Say("A machine at %s is trying (%d of %d).", show.Line(p.Address), p.Tries, pairTries)
	}
	return nil
}

// offer shows the code, also with --quiet: it is the purpose of the command.
func (w *pairWatch) offer(p palyra.Pairing) {
	if w.link != "" {
		w.offerBrowser(p)
		return
	}
	if !w.noQR && terminal.Is(w.inv.Stderr) {
		w.showQR(p.Code)
	}
	pin := p.PIN
	if len(pin) == 8 {
		pin = pin[:4] + " " + pin[4:]
	}
	at := "ADDRESS"
	if len(p.Addresses) > 0 {
		at = p.Addresses[0]
	}
	fmt.Fprintf(w.inv.Stderr, "PIN    %s\nCode   %s\n\n", show.Line(pin), show.Line(p.Code))
	fmt.Fprintf(w.inv.Stderr, "On the other machine:  palyra device join %s\n", show.Line(at))
	if len(p.Addresses) > 1 {
		fmt.Fprintf(w.inv.Stderr, "It can also be reached at %s.\n", show.Line(strings.Join(p.Addresses[1:], ", ")))
	}
	w.inv.Say("Good until %s. Waiting; Ctrl-C withdraws it.", screen.Stamp(p.ExpiresAt))
}

// quietZone is the empty border of a QR code, in modules.
const quietZone = 2

// showQR draws the code where the terminal is wide enough; wrapped lines could not be scanned.
func (w *pairWatch) showQR(code string) {
	lines := qrLines(code)
	if len(lines) == 0 {
		return
	}
	if columns := screen.Width(w.inv.Stderr); columns > 0 && columns < len([]rune(lines[0])) {
		w.inv.Say("The terminal is too narrow for the QR code: %d columns are needed.", len([]rune(lines[0])))
		return
	}
	for _, line := range lines {
		if w.inv.Colours(w.inv.Stderr) { // light on dark, whatever the terminal's colours
			line = "\x1b[97;40m" + line + "\x1b[0m"
		}
		fmt.Fprintln(w.inv.Stderr, line)
	}
}

// qrLines draws a QR code, two modules to a character; the light ones are drawn.
func qrLines(code string) []string {
	var b bytes.Buffer
	qrterminal.GenerateWithConfig(code, qrterminal.Config{
		Level: qrterminal.L, Writer: &b, HalfBlocks: true, QuietZone: quietZone,
		BlackChar: qrterminal.BLACK_BLACK, WhiteChar: qrterminal.WHITE_WHITE, BlackWhiteChar: qrterminal.BLACK_WHITE,
		WhiteBlackChar: qrterminal.WHITE_BLACK,
	})
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// ask shows the machine to the person and asks. The answer is an ordinary decision, signed with
// their key; without a terminal it must be given elsewhere.
func (w *pairWatch) ask(p palyra.Pairing) {
	other := "the other machine"
	if w.link != "" {
		other = "the page"
	}
	fmt.Fprintf(w.inv.Stderr, "\n%s at %s knows the code.\nIts key is  %s\nCompare this with what %s shows.\n\n",
		show.Line(p.Name), show.Line(p.Address), show.Line(p.Print), other)
	id := show.Arg(string(p.Approval))
	if !w.inv.Interactive() {
		fmt.Fprintf(w.inv.Stderr, "Answer it with: %s approvals decide %s allow, or deny\n", w.inv.Own(), id) // nothing goes on without an answer
		return
	}
	w.inv.Say("Answer below, or elsewhere with: %s approvals decide %s allow", w.inv.Own(), id)
	w.asker.AskInPlace(w.ctx, client.ApprovalRequested{ApprovalID: p.Approval})
}

// leave removes the question from the screen.
func (w *pairWatch) leave() {
	w.asker.End()
}

// withdrawn reports what became of the code when the command ends before the pairing.
func (w *pairWatch) withdrawn(err error) error {
	if w.ctx.Err() != nil && w.last.ID != "" {
		w.inv.Say("palyra: the code is withdrawn; nothing was paired")
	}
	return err
}

// command is what shows another code.
func (w *pairWatch) command() string {
	if w.link != "" {
		return "palyra console pair"
	}
	return "palyra device pair"
}

// pairEnds are the messages for pairings that did not succeed; COMMAND is what shows another code.
var pairEnds = map[palyra.PairingState]struct {
	code         palyra.Code
	reason       palyra.Reason
	text, remedy string
}{
	palyra.PairingExpired: {
		palyra.Expired, palyra.ReasonPairingExpired, "nobody used the code in time",
		"show another one: COMMAND",
	},
	palyra.PairingLocked: {
		palyra.Exhausted, palyra.ReasonPairingLocked, "the code was tried too often and is dead",
		"somebody guessed five times; make sure who, then show another code: COMMAND",
	},
	palyra.PairingRefused: {palyra.Denied, palyra.ReasonPairingRefused, "the machine was refused", "nothing was paired"},
	palyra.PairingGone: {
		palyra.Expired, palyra.ReasonCancelled, "the code was withdrawn",
		"nothing was paired; show another one: COMMAND",
	},
}

// end reports how the pairing ended.
func (w *pairWatch) end() error {
	p := w.last
	if p.State == palyra.PairingDone && p.Device != nil {
		if !w.inv.JSON {
			w.inv.Say("Paired: %s (%s) is a device of %s and may do what the role %s may.",
				show.Line(p.Device.Name), show.Line(p.Device.ID), show.Line(string(p.Device.Principal)), show.Line(string(p.Device.Role)))
		}
		return nil
	}
	end, ok := pairEnds[p.State]
	if !ok {
		return palyra.Errorf(palyra.Unavailable, palyra.ReasonPairingBroken, "the pairing broke off").
			WithRemedy("see 'palyra device list' for what came of it; else show another code: %s", w.command())
	}
	if p.Text != "" {
		end.text = p.Text
	}
	if p.Reason != "" {
		end.reason = p.Reason
	}
	if p.Reason == palyra.ReasonExists {
		end.code, end.remedy = palyra.Conflict, "nobody was asked and nothing was paired; show another code (COMMAND) and "+
			"join with another name: palyra device join --name OTHER"
	}
	return palyra.Errorf(end.code, end.reason, "%s", end.text).WithRemedy("%s", strings.ReplaceAll(end.remedy, "COMMAND", w.command()))
}
