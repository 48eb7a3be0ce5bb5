package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/passkey"
	"palyra/internal/show"
)

func devicesCommand(inv *invocation.Invocation) *cobra.Command {
	return syntax.Parent("device", "Other machines that decide and look here, and daemons that this one is paired with",
		devicePairCommand(inv), deviceJoinCommand(inv), deviceListCommand(inv), deviceShowCommand(inv),
		deviceRevokeCommand(inv), deviceRenewCommand(inv), deviceRemotesCommand(inv), deviceForgetCommand(inv))
}

func deviceListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.Device]{
		Short: "List the devices; revoked ones too", Example: "  palyra device list",
		Name: "devices", Find: (*client.Client).Devices,
		Head: []string{"NAME", "ID", "PRINCIPAL", "ROLE", "PAIRED", "SEEN", "STATE"},
		Row: func(d palyra.Device) []string {
			return []string{d.Name, d.ID, string(d.Principal), string(d.Role), screen.Stamp(d.PairedAt), screen.Stamp(d.SeenAt), deviceEnd(inv, d)}
		},
	}.Command(inv)
}

// deviceEnd is the state of a device.
func deviceEnd(inv *invocation.Invocation, d palyra.Device) string {
	switch {
	case !d.Live():
		return "revoked " + screen.Stamp(d.RevokedAt)
	case d.Passkey != nil && !inv.Now().Before(d.ExpiresAt):
		return "passkey, ended " + screen.Stamp(d.ExpiresAt)
	case d.Passkey != nil:
		return "passkey until " + screen.Stamp(d.ExpiresAt)
	case d.Browser() && !inv.Now().Before(d.ExpiresAt):
		return "browser, ended " + screen.Stamp(d.ExpiresAt)
	case d.Browser() && passkey.Plain(d.Address):
		return "browser that only denies, until " + screen.Stamp(d.ExpiresAt)
	case d.Browser():
		return "browser until " + screen.Stamp(d.ExpiresAt)
	case !inv.Now().Before(d.ExpiresAt):
		return "certificate ended " + screen.Stamp(d.ExpiresAt)
	}
	return "certificate until " + screen.Stamp(d.ExpiresAt)
}

func deviceShowCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "show DEVICE", Short: "Show one device, by its name or id", Args: syntax.Takes("DEVICE"), ValidArgsFunction: completeDevices(inv),
		Example: "  palyra device show laptop",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.Device(ctx, args[0])
			return inv.Answer(err, d, func(w io.Writer) {
				screen.Fields(w, screen.Pair{"Device", d.ID}, screen.Pair{"Name", d.Name},
					screen.Pair{"Principal", string(d.Principal)}, screen.Pair{"Role", string(d.Role)},
					screen.Pair{"Key", d.KeyID}, screen.Pair{"Public key", d.PublicKey},
					screen.Pair{"Certificate", string(d.Certificate)}, screen.Pair{"Serial", d.Serial}, screen.Pair{"Passkey", passkeyText(d)},
					screen.Pair{"State", deviceEnd(inv, d)},
					screen.Pair{"Paired", screen.Stamp(d.PairedAt) + " by " + string(d.PairedBy) + " from " + d.Address},
					screen.Pair{"Call", string(d.Call)}, screen.Pair{"Seen", screen.Stamp(d.SeenAt)},
					screen.Pair{"Revoked by", string(d.RevokedBy)})
			})
		}),
	}
}

// passkeyText says what is known of a passkey; empty: the device is none.
func passkeyText(d palyra.Device) string {
	if d.Passkey == nil {
		return ""
	}
	text := d.Passkey.Origin + ", approver separation " + string(d.Passkey.Separation)
	if d.Passkey.Eligible {
		text += ", copies may be elsewhere"
	}
	return text
}

func deviceRevokeCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "revoke DEVICE", Short: "End a device at once, with every connection it has open", Args: syntax.Takes("DEVICE"),
		ValidArgsFunction: completeDevices(inv),
		Long: "DEVICE is its name or id. It is not let in any more, from now on; the machine itself\nkeeps its key, which " +
			"opens nothing here. To let it in again, pair it under another name.",
		Example: "  palyra device revoke laptop",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := c.Device(ctx, args[0])
			if err != nil {
				return err
			}
			revoked, err := c.RevokeDevice(ctx, d.ID)
			if err == nil {
				d = revoked
			}
			return inv.Answer(parted(ctx, inv, c, d, err), d, func(w io.Writer) { fmt.Fprintf(w, "%s: revoked\n", show.Line(d.Name)) })
		}),
	}
}

// parted is err, or nil when this machine has just revoked itself: the daemon cuts the connections
// of a revoked device, also the one with this request, and lets it in no more.
func parted(ctx context.Context, inv *invocation.Invocation, c *client.Client, d palyra.Device, err error) error {
	conf, bad := inv.Config()
	if err == nil || bad != nil || inv.RemoteName() == "" || palyra.AsError(err).Reason != client.ReasonConnectionLost {
		return err
	}
	r, bad := client.LoadRemote(conf.Paths.Remotes, inv.RemoteName())
	if bad != nil || r.Device.ID != d.ID {
		return err
	}
	_, now := c.Status(ctx)
	switch e := palyra.AsError(now); {
	case now == nil:
		return err
	case e.Reason == palyra.ReasonBadCertificate || e.Reason == palyra.ReasonDeviceRevoked:
		return nil
	}
	// The daemon closes its port with the last device, so a lost connection can be the success; it need not be.
	return palyra.Errorf(palyra.Unavailable, client.ReasonConnectionLost,
		"the daemon hung up on this machine, as it does when a device is revoked, and does not answer any more").
		WithRemedy("make sure on its machine: palyra device list").WithCause(err)
}

func deviceRenewCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "renew [NAME]", Short: "Renew this machine's certificate at a daemon elsewhere", Args: syntax.Takes("[NAME]"),
		ValidArgsFunction: completeRemote(inv),
		Long: "Certificates are renewed by themselves after two thirds of their life, whenever the daemon\n" +
			"is used. This does it now. NAME is one of 'palyra device remotes' (default: that of\n" +
			"--remote).",
		Example: "  palyra device renew work",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := inv.RemoteName()
			if len(args) > 0 {
				if inv.Remote.Given && inv.Remote.Name != args[0] {
					return exit.Usagef("%s and --remote %s are not the same daemon", show.Arg(args[0]), show.Arg(inv.Remote.Name))
				}
				name = args[0]
			}
			if name == "" {
				return exit.Usagef("NAME is missing: one of 'palyra device remotes'")
			}
			c, err := inv.Config()
			if err != nil {
				return err
			}
			r, err := client.LoadRemote(c.Paths.Remotes, name)
			if err != nil {
				return err
			}
			d, err := r.Renew(cmd.Context())
			return inv.Answer(err, d, func(w io.Writer) {
				fmt.Fprintf(w, "%s: certificate until %s\n", show.Line(name), screen.Stamp(d.ExpiresAt))
			})
		},
	}
}

func deviceRemotesCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "remotes", Short: "List the daemons that this machine is paired with; needs no daemon",
		Args: syntax.Takes(), Example: "  palyra device remotes",
		Long: "CERTIFICATE and UNTIL are about this machine's certificate and its time. Whether the daemon\n" +
			"still lets this machine in, or has revoked it, only the daemon knows: ask it with\n" +
			"'palyra --remote NAME status'.",
		RunE: func(*cobra.Command, []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			list, bad := client.Remotes(c.Paths.Remotes)
			err = invocation.Page[*client.Remote]{
				JSON: map[string][]*client.Remote{"remotes": screen.Some(list)}, Things: list,
				Head: []string{"NAME", "ADDRESS", "AS", "ROLE", "CERTIFICATE", "UNTIL", "STATE"},
				Row: func(r *client.Remote) []string {
					ends, _ := r.Expires()
					return []string{r.Name, r.Address, r.Device.Name, string(r.Device.Role), certificateEnd(inv, r), screen.Stamp(ends), r.StateID}
				},
			}.Show(inv)
			if err != nil {
				return err
			}
			return bad // the usable ones are listed all the same
		},
	}
}

// certificateEnd is the state of this machine's certificate for a daemon.
func certificateEnd(inv *invocation.Invocation, r *client.Remote) string {
	ends, due := r.Expires()
	switch now := inv.Now(); {
	case !now.Before(ends):
		return "has ended: pair again"
	case !now.Before(due):
		return "is renewed at the next use"
	}
	return "has not ended" // only the daemon knows whether it still accepts the certificate
}

func deviceForgetCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "forget NAME", Short: "Remove what this machine keeps of a daemon elsewhere; needs no daemon", Args: syntax.Takes("NAME"),
		ValidArgsFunction: completeRemote(inv),
		Long: "NAME is one of 'palyra device remotes'. The key of this machine for it is removed, and with\n" +
			"it every way in. The daemon is not asked: have the device revoked there as well.",
		Example: "  palyra device forget work",
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			device := "DEVICE"
			if r, err := client.LoadRemote(c.Paths.Remotes, args[0]); err == nil { // a damaged remote can be forgotten as well
				device = show.Arg(r.Device.Name)
			}
			err = client.ForgetRemote(c.Paths.Remotes, args[0])
			return inv.Answer(err, map[string]string{"name": args[0]}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: forgotten here\n", show.Line(args[0]))
				inv.Say("palyra: its daemon still knows this machine; there: palyra device revoke %s", device)
			})
		},
	}
}

func completeDevices(inv *invocation.Invocation) cobra.CompletionFunc {
	return invocation.OfferOne(inv, (*client.Client).Devices, func(d palyra.Device) string { return d.Name })
}
