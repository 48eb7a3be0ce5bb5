package cli

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// joinOptions holds the options of device join.
type joinOptions struct{ as, name, code string }

func deviceJoinCommand(inv *invocation.Invocation) *cobra.Command {
	var o joinOptions
	cmd := &cobra.Command{
		Use: "join [ADDRESS]", Short: "Pair this machine with a daemon elsewhere", Args: syntax.Takes("[ADDRESS]"),
		Long: "Makes a key on this machine, proves to the daemon at ADDRESS (host or host:port) that you\n" +
			"know the PIN it shows, and keeps the certificate that it gives once a person there said\n" +
			"yes. The PIN is read from the terminal and nowhere else. With --code, the text of the QR\n" +
			"code, neither an address nor a PIN is needed; an ADDRESS beside it is tried in place of\n" +
			"those in the code. What is kept is in the directory of 'palyra config path', under\n" +
			"remotes; the key never leaves it.",
		Example: "  palyra device join 192.0.2.7\n  palyra device join 192.0.2.7:7443 --as work --name laptop\n  palyra device join " +
			"--code - < code.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := joinRequest(inv, args, o)
			if err != nil {
				return err
			}
			r, err := client.Join(cmd.Context(), q)
			if err != nil {
				return err
			}
			return inv.Emit(r.Copy(), func(w io.Writer) {
				fmt.Fprintf(w, "Paired as %s with the daemon at %s. Use it with: palyra --remote %s status\n",
					show.Line(r.Device.Name), show.Line(r.Address), show.Arg(r.Name))
			})
		},
	}
	cmd.Flags().StringVar(&o.as, "as", "", "what the daemon is called here (default: the host of its address)")
	cmd.Flags().StringVar(&o.name, "name", "", "what this machine is called there (default: its host name)")
	cmd.Flags().StringVar(&o.code, "code", "", "the text of the QR code, or @FILE, or - to read it from stdin: it is a secret for two minutes")
	return cmd
}

const (
	remotePort = "7443"
	maxCode    = 4096
)

// joinRequest fills in the arguments that the person left out.
func joinRequest(inv *invocation.Invocation, args []string, o joinOptions) (client.JoinRequest, error) {
	c, err := inv.Config()
	if err != nil {
		return client.JoinRequest{}, err
	}
	q := client.JoinRequest{
		Dir: c.Paths.Remotes, Name: o.as, Device: o.name,
		PIN:   func() (palyra.Secret, error) { return pin(inv) },
		Wrong: func(err error, left int) { wrongPIN(inv, err, left) },
	}
	if len(args) == 0 && o.code == "" {
		return q, exit.Usagef("give an ADDRESS, or the text of the QR code with --code")
	}
	if o.code != "" {
		raw, err := inv.ReadInput(o.code, maxCode)
		if err != nil {
			return q, err
		}
		if q.Code = strings.TrimSpace(string(raw)); q.Code == "" {
			return q, exit.Usagef("--code is empty")
		}
	}
	if len(args) > 0 {
		q.Address = withPort(args[0])
	}
	if q.Device == "" {
		q.Device = client.PlainName(hostname())
	}
	q.Prepared = func(print string) {
		inv.Say("This machine's key is  %s\nCompare it with what the daemon's side shows before you say yes there.", show.Line(print))
	}
	q.Progress = func(_ palyra.PairingState, text string) { inv.Say("%s", show.Line(text)) }
	return q, nil
}

// pin asks for the PIN. It comes from the person's terminal only: an agent must not be able to pair
// a machine by itself.
func pin(inv *invocation.Invocation) (palyra.Secret, error) {
	s, err := inv.Secret(inv.Context, "PIN that the daemon shows: ")
	if err != nil && palyra.AsError(err).Reason == palyra.ReasonCancelled {
		return s, palyra.Errorf(palyra.Expired, palyra.ReasonCancelled, "no PIN was typed").WithCause(err)
	}
	return s, noTerminal(err, "there is no terminal to type the PIN on",
		"run it from a terminal; it is taken from nowhere else. Without one, pair with the text of the QR code: --code -")
}

// wrongPIN says that the person may try again.
func wrongPIN(inv *invocation.Invocation, err error, left int) {
	e := palyra.AsError(err)
	fmt.Fprintf(inv.Stderr, "palyra: %s; %d of %d tries are left\n", show.Line(e.Text), left, invocation.MaxTries)
	if e.Remedy != "" {
		inv.Say("  remedy: %s", show.Line(e.Remedy))
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(name, ".")
	return first
}

// withPort adds the usual port to an address without one. Invalid addresses stay unchanged and are refused later.
func withPort(address string) string {
	bare, open := strings.CutPrefix(address, "[")
	bare, shut := strings.CutSuffix(bare, "]")
	ip, err := netip.ParseAddr(bare)
	switch {
	case err == nil && ip.Is6() && open == shut:
		return "[" + bare + "]:" + remotePort
	case address != "" && !strings.ContainsAny(address, ":[]"):
		return address + ":" + remotePort
	}
	return address
}
