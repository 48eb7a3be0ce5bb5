package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/show"
)

func (a *app) devices() *cobra.Command {
	return parent("device", "Other machines that decide and look here, and daemons that this one is paired with",
		a.devicePair(), a.deviceJoin(), a.deviceList(), a.deviceShow(), a.deviceRevoke(), a.deviceRenew(), a.deviceRemotes())
}

func (a *app) devicePair() *cobra.Command {
	var principal, role string
	var noQR bool
	cmd := &cobra.Command{
		Use: "pair", Short: "Show a code with which another machine becomes a device", Args: takes(),
		Long: "Shows an 8-digit PIN and a QR code, both good for two minutes and five tries. Type or\n" +
			"scan it on the other machine ('palyra device join'). When that machine has proven that\n" +
			"it knows the code you are shown its name, address and key, and asked. Nothing is paired\n" +
			"before you say yes. Ctrl-C withdraws the code.",
		Example: "  palyra device pair\n  palyra device pair --role viewer\n  palyra device pair --for user:bob --role approver",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			w := &pairWatch{app: a, noQR: noQR, ctx: ctx}
			if err := c.PairDevice(ctx, palyra.Principal(principal), palyra.Role(role), w.see); err != nil {
				return err
			}
			return w.end()
		}),
	}
	cmd.Flags().StringVar(&principal, "for", "", "whose device it is to be, as user:NAME (default: yours)")
	cmd.Flags().StringVar(&role, "role", "", "the most that it may do: approver, viewer, operator, admin, owner, auditor (default approver)")
	cmd.Flags().BoolVar(&noQR, "no-qr", false, "print the PIN and the code's text only")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"approver", "viewer", "operator", "admin", "owner", "auditor"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// pairWatch tells a person how a pairing goes.
type pairWatch struct {
	*app // the command, which it does not outlive
	ctx  context.Context
	noQR bool
	last palyra.Pairing
	stop context.CancelFunc // of the question at this terminal
	done chan error
}

// see is told of every change.
func (w *pairWatch) see(p palyra.Pairing) error {
	fresh := w.last.ID == ""
	before := w.last
	w.last = p
	if w.asJSON {
		return w.printJSON(p)
	}
	switch {
	case fresh:
		w.offer(p)
	case p.State == palyra.PairingProven && p.Approval != "" && before.Approval == "":
		w.ask(p)
	case p.State != palyra.PairingProven && w.stop != nil:
		w.stop() // answered elsewhere, or over
	case p.Tries > before.Tries:
		w.say("A machine at %s is trying (%d of 5).", show.Line(p.Address), p.Tries)
	}
	return nil
}

// offer shows the code.
func (w *pairWatch) offer(p palyra.Pairing) {
	if !w.noQR {
		qrterminal.GenerateWithConfig(p.Code, qrterminal.Config{
			Level: qrterminal.L, Writer: w.Stderr, HalfBlocks: true, QuietZone: 2,
			BlackChar: qrterminal.BLACK_BLACK, WhiteChar: qrterminal.WHITE_WHITE, BlackWhiteChar: qrterminal.BLACK_WHITE, WhiteBlackChar: qrterminal.WHITE_BLACK,
		})
	}
	pin := p.PIN
	if len(pin) == 8 {
		pin = pin[:4] + " " + pin[4:]
	}
	at := "ADDRESS"
	if len(p.Addresses) > 0 {
		at = p.Addresses[0]
	}
	fmt.Fprintf(w.Stderr, "PIN    %s\nCode   %s\n\n", show.Line(pin), show.Line(p.Code))
	fmt.Fprintf(w.Stderr, "On the other machine:  palyra device join %s\n", show.Line(at))
	if len(p.Addresses) > 1 {
		fmt.Fprintf(w.Stderr, "It can also be reached at %s.\n", show.Line(strings.Join(p.Addresses[1:], ", ")))
	}
	w.say("Good until %s. Waiting; Ctrl-C withdraws it.", stamp(p.ExpiresAt))
}

// ask puts the machine before the person. The answer is an ordinary decision,
// signed with their key; without a terminal somebody else must give it.
func (w *pairWatch) ask(p palyra.Pairing) {
	fmt.Fprintf(w.Stderr, "\n%s at %s knows the code.\nIts key is  %s\nCompare this with what the other machine shows.\n\n",
		show.Line(p.Name), show.Line(p.Address), show.Line(p.Print))
	if !w.interactive() {
		w.say("Answer it with: palyra approvals decide %s allow|deny", show.Line(string(p.Approval)))
		return
	}
	w.say("Answer below, or elsewhere with: palyra approvals decide %s", show.Line(string(p.Approval)))
	ctx, stop := context.WithCancel(w.ctx)
	w.stop, w.done = stop, make(chan error, 1)
	go func() { w.done <- (&waiter{app: w.app, what: "leaves it"}).decideHere(ctx, p.Approval) }()
}

// end says how it ended.
func (w *pairWatch) end() error {
	if w.stop != nil {
		w.stop()
		if err := <-w.done; err != nil && w.last.State != palyra.PairingDone && w.ctx.Err() == nil && palyra.AsError(err).Reason != palyra.ReasonCancelled {
			w.say("palyra: %s", show.Line(palyra.AsError(err).Text))
		}
	}
	p := w.last
	if p.State == palyra.PairingDone && p.Device != nil {
		if w.asJSON {
			return nil
		}
		w.say("Paired: %s (%s) is a device of %s and may do what the role %s may.",
			show.Line(p.Device.Name), show.Line(p.Device.ID), show.Line(string(p.Device.Principal)), show.Line(string(p.Device.Role)))
		return nil
	}
	remedy := map[palyra.PairingState]string{
		palyra.PairingExpired: "show another code: palyra device pair",
		palyra.PairingLocked:  "somebody guessed five times; make sure who, then show another code: palyra device pair",
		palyra.PairingRefused: "nothing was paired",
	}[p.State]
	text := p.Text
	if text == "" {
		text = "the pairing is " + string(p.State)
	}
	reason := p.Reason
	if reason == "" {
		reason = palyra.ReasonPairingExpired
	}
	return palyra.Errorf(palyra.Denied, reason, "%s", text).WithRemedy("%s", remedy)
}

func (a *app) deviceJoin() *cobra.Command {
	var as, name, code string
	cmd := &cobra.Command{
		Use: "join [ADDRESS]", Short: "Pair this machine with a daemon elsewhere", Args: cobra.MaximumNArgs(1),
		Long: "Makes a key on this machine, proves to the daemon at ADDRESS (host or host:port) that you\n" +
			"know the PIN it shows, and keeps the certificate that it gives once a person there said\n" +
			"yes. The PIN is read from the terminal. With --code, the text of the QR code, neither an\n" +
			"address nor a PIN is needed.",
		Example: "  palyra device join 192.0.2.7\n  palyra device join 192.0.2.7:7443 --as work --name laptop\n  palyra device join --code 'palyra-pair:1?…'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.here("device join"); err != nil {
				return err
			}
			q, err := a.joinRequest(args, as, name, code)
			if err != nil {
				return err
			}
			r, err := client.Join(cmd.Context(), q)
			if err != nil {
				return err
			}
			return a.emit(r, func(w io.Writer) {
				fmt.Fprintf(w, "Paired as %s with the daemon at %s. Use it with: palyra --remote %s status\n",
					show.Line(r.Device.Name), show.Line(r.Address), show.Line(r.Name))
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "what the daemon is called here (default: the host of its address)")
	cmd.Flags().StringVar(&name, "name", "", "what this machine is called there (default: its host name)")
	cmd.Flags().StringVar(&code, "code", "", "the text of the QR code, or @FILE, or - to read it from stdin: it is a secret for two minutes")
	return cmd
}

const (
	remotePort = "7443"
	maxCode    = 4096
)

// joinRequest fills in what the person left out.
func (a *app) joinRequest(args []string, as, name, code string) (client.JoinRequest, error) {
	c, err := a.config()
	if err != nil {
		return client.JoinRequest{}, err
	}
	q := client.JoinRequest{Dir: c.Paths.Remotes, Name: as, Device: name}
	if code != "" {
		raw, err := a.readInput(code, maxCode)
		if err != nil {
			return q, err
		}
		q.Code = strings.TrimSpace(string(raw))
	}
	if (len(args) == 0) == (q.Code == "") {
		return q, usage("give an ADDRESS, or the text of the QR code with --code")
	}
	if len(args) > 0 {
		q.Address = withPort(args[0])
		q.PIN = func() (palyra.Secret, error) { return a.secret(a.ctx, "PIN shown by the daemon: ") }
	}
	if q.Device == "" {
		q.Device = plainName(hostname())
	}
	if q.Name == "" {
		q.Name = "daemon"
		if q.Address != "" {
			q.Name = plainName(strings.TrimSuffix(q.Address, ":"+remotePort))
		}
	}
	q.Prepared = func(print string) {
		a.say("This machine's key is  %s\nCompare it with what the daemon's side shows before you say yes there.", show.Line(print))
	}
	q.Progress = func(_ palyra.PairingState, text string) { a.say("%s", show.Line(text)) }
	return q, nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "device"
	}
	first, _, _ := strings.Cut(name, ".")
	return first
}

// withPort adds the usual port to an address that has none.
func withPort(address string) string {
	switch {
	case strings.HasPrefix(address, "["):
		if strings.HasSuffix(address, "]") {
			return address + ":" + remotePort
		}
		return address
	case strings.Count(address, ":") > 1: // a bare IPv6 address
		return "[" + address + "]:" + remotePort
	case !strings.Contains(address, ":"):
		return address + ":" + remotePort
	}
	return address
}

// plainName makes a name out of an address or host name.
func plainName(s string) string {
	out := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '-'
	}, s), "-._")
	if out == "" {
		return "device"
	}
	const most = 40
	return out[:min(len(out), most)]
}

func (a *app) deviceList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the devices; revoked ones too", Args: takes(), Example: "  palyra device list",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			list, err := c.Devices(ctx)
			if err != nil {
				return err
			}
			return a.emit(map[string][]palyra.Device{"devices": some(list)}, func(w io.Writer) {
				var rows [][]string
				for _, d := range list {
					rows = append(rows, []string{d.Name, d.ID, string(d.Principal), string(d.Role), stamp(d.PairedAt), stamp(d.SeenAt), a.deviceEnd(d)})
				}
				table(w, []string{"NAME", "ID", "PRINCIPAL", "ROLE", "PAIRED", "SEEN", "STATE"}, rows)
			})
		}),
	}
}

// deviceEnd is how a device stands.
func (a *app) deviceEnd(d palyra.Device) string {
	switch {
	case !d.Live():
		return "revoked " + stamp(d.RevokedAt)
	case !a.Now().Before(d.ExpiresAt):
		return "certificate ended " + stamp(d.ExpiresAt)
	}
	return "certificate until " + stamp(d.ExpiresAt)
}

func (a *app) deviceShow() *cobra.Command {
	return &cobra.Command{
		Use: "show DEVICE", Short: "Show one device, by its name or id", Args: takes("DEVICE"), Example: "  palyra device show laptop",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.Device(ctx, args[0])
			if err != nil {
				return err
			}
			return a.emit(d, func(w io.Writer) {
				fields(w, pair{"Device", d.ID}, pair{"Name", d.Name}, pair{"Principal", string(d.Principal)}, pair{"Role", string(d.Role)},
					pair{"Key", d.KeyID}, pair{"Public key", d.PublicKey}, pair{"Certificate", string(d.Certificate)}, pair{"Serial", d.Serial},
					pair{"State", a.deviceEnd(d)}, pair{"Paired", stamp(d.PairedAt) + " by " + string(d.PairedBy) + " from " + d.Address},
					pair{"Call", string(d.Call)}, pair{"Seen", stamp(d.SeenAt)})
			})
		}),
	}
}

func (a *app) deviceRevoke() *cobra.Command {
	return &cobra.Command{
		Use: "revoke DEVICE", Short: "End a device at once, with every connection it has open", Args: takes("DEVICE"), Example: "  palyra device revoke laptop",
		RunE: a.asOperator(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.Device(ctx, args[0])
			if err != nil {
				return err
			}
			if d, err = c.RevokeDevice(ctx, d.ID); err != nil {
				return err
			}
			return a.emit(d, func(w io.Writer) { fmt.Fprintf(w, "%s: revoked\n", show.Line(d.Name)) })
		}),
	}
}

func (a *app) deviceRenew() *cobra.Command {
	return &cobra.Command{
		Use: "renew NAME", Short: "Renew this machine's certificate at a daemon elsewhere", Args: takes("NAME"),
		Long: "Certificates are renewed by themselves after two thirds of their life, whenever the daemon\n" +
			"is used. This does it now. NAME is one of 'palyra device remotes'.",
		Example: "  palyra device renew work",
		RunE: func(cmd *cobra.Command, args []string) error {
			a.remote = args[0]
			c, err := a.operator()
			if err != nil {
				return err
			}
			defer c.Close()
			d, err := c.Renew(cmd.Context())
			if err != nil {
				return err
			}
			return a.emit(d, func(w io.Writer) {
				fmt.Fprintf(w, "%s: certificate until %s\n", show.Line(args[0]), stamp(d.ExpiresAt))
			})
		},
	}
}

func (a *app) deviceRemotes() *cobra.Command {
	return &cobra.Command{
		Use: "remotes", Short: "List the daemons that this machine is paired with", Args: takes(), Example: "  palyra device remotes",
		RunE: func(*cobra.Command, []string) error {
			c, err := a.config()
			if err != nil {
				return err
			}
			list, err := client.Remotes(c.Paths.Remotes)
			if err != nil {
				return err
			}
			return a.emit(map[string][]*client.Remote{"remotes": some(list)}, func(w io.Writer) {
				var rows [][]string
				for _, r := range list {
					ends, _ := r.Expires()
					rows = append(rows, []string{r.Name, r.Address, r.Device.Name, string(r.Device.Role), left(ends, a.Now()), r.StateID})
				}
				table(w, []string{"NAME", "ADDRESS", "AS", "ROLE", "CERTIFICATE", "STATE"}, rows)
			})
		},
	}
}

