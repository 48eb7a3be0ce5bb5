package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
	"palyra/secrets"
)

// bindFlags are the flags of vault bind.
type bindFlags struct {
	secret, scope, header, query, body, aws string
	basic, websocket                        bool
	git, provider                           bool
	upstream                                string
	keys                                    keyFlags
	tools                                   []string
	binding                                 secrets.Binding
}

// kind finds the one kind that was named.
func (f *bindFlags) kind() error {
	named := 0
	for kind, place := range map[secrets.Kind]string{
		secrets.Header: f.header, secrets.Query: f.query, secrets.Body: f.body, secrets.SigV4: f.aws, secrets.Upstream: f.upstream,
	} {
		if place != "" {
			f.binding.Kind, f.binding.Place = kind, place
			named++
		}
	}
	for kind, is := range map[secrets.Kind]bool{
		secrets.Basic: f.basic, secrets.WebSocket: f.websocket, secrets.Git: f.git, secrets.Provider: f.provider,
		secrets.SSHAgent: f.keys.ssh, secrets.GitSSH: f.keys.git, secrets.Signing: f.keys.sign,
	} {
		if is {
			f.binding.Kind, f.binding.Place = kind, ""
			named++
		}
	}
	if len(f.binding.Hosts) == 0 && !f.keys.sign {
		return exit.Usagef("say at which host it may be used: --host HOST")
	}
	if named != 1 {
		return exit.Usagef("say where the value goes: one of --header, --query, --body, --basic, --websocket, --git, --sigv4, --ssh, " +
			"--git-ssh, --sign, --provider, --upstream")
	}
	return nil
}

func vaultBindCommand(inv *invocation.Invocation) *cobra.Command {
	var f bindFlags
	cmd := &cobra.Command{
		Use: "bind NAME", Short: "Say how a secret may be used: where it goes, at which hosts, in which calls", Args: syntax.Takes("NAME"),
		Long: "Say how a secret may be used. Agents name the binding (palyra exec --secret NAME); their programs get a placeholder. The\n" +
			"value goes in on the way to the host, in the one place that the binding names. A binding of the same name is replaced.\n\n" +
			"--provider is for the key of a provider of models (providers.NAME.key_binding), and --upstream for an MCP server behind\n" +
			"the gate (palyra mcp add --secret NAME): no call of an agent can use these.\n\n" +
			"A private key goes nowhere: --ssh has it log in by ssh at hosts whose host keys are given, for whatever programs do there.\n" +
			"--git-ssh has Palyra itself connect git to these hosts, and nothing but git; each repository and each push is asked about.\n" +
			"--sign has it sign commits and tags, each of which is shown first. It is a secret of the vault, or stays in your own\n" +
			"ssh-agent (--ssh-agent, --key) or gpg-agent (--gpg-agent, --key FILE).",
		Example: "  palyra vault bind github --secret github-token --host api.github.com --header Authorization --env GITHUB_TOKEN\n" +
			"  palyra vault bind push --secret github-token --host github.com --git\n" +
			"  palyra vault bind npm --secret npm-token --host registry.npmjs.org --header Authorization --env NPM_TOKEN --workspace ~/src/site\n" +
			"  palyra vault bind photos --secret aws-key --host photos.s3.eu-west-1.amazonaws.com --sigv4 eu-west-1/s3\n" +
			"  palyra vault bind deploy --secret deploy-key --git-ssh --host github.com --host-key github.known_hosts --user git\n" +
			"  palyra vault bind commits --sign --secret signing-key",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			if err := f.kind(); err != nil {
				return err
			}
			f.binding.Name, f.binding.Secret, f.binding.Scope = args[0], f.secret, secrets.Scope(f.scope)
			if err := f.keys.fill(inv, f.secret, &f.binding); err != nil {
				return err
			}
			if f.secret == "" && f.binding.Agent == "" {
				f.binding.Secret = args[0]
			}
			for _, t := range f.tools {
				f.binding.Tools = append(f.binding.Tools, palyra.ToolName(t))
			}
			for i, h := range f.binding.Hosts {
				if !strings.Contains(strings.TrimSuffix(h, "]"), ":") {
					f.binding.Hosts[i] = h + f.keys.port()
				}
			}
			for i, w := range f.binding.Workspaces {
				abs, err := filepath.Abs(w)
				if err != nil {
					return err
				}
				f.binding.Workspaces[i] = abs
			}
			b, err := c.BindSecret(ctx, f.binding)
			return inv.Answer(err, b, func(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", show.Line(b.Name), bindingText(b)) })
		}),
	}
	scopeFlag(cmd, &f.scope)
	f.keys.flags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.secret, "secret", "", "the secret (default: NAME)")
	fs.StringSliceVar(&f.binding.Hosts, "host", nil,
		"host, or host:port, that the value may be sent to by TLS, or logs in at by ssh; may be given again")
	fs.StringVar(&f.header, "header", "", "the value goes into this header, where the program puts the placeholder")
	fs.StringVar(&f.query, "query", "", "the value goes into this query parameter")
	fs.StringVar(&f.body, "body", "", "the value goes into this field of a JSON object (a.b for one inside) or of a form")
	fs.BoolVar(&f.basic, "basic", false, "the value is the user or the password of Basic authorization")
	fs.BoolVar(&f.websocket, "websocket", false, "the value goes into the first message of a WebSocket")
	fs.BoolVar(&f.git, "git", false, "git gets it as the password for these hosts")
	fs.StringVar(&f.aws, "sigv4", "", "the value is a key of AWS, and signs what programs sign with a placeholder, for this REGION/SERVICE")
	fs.BoolVar(&f.provider, "provider", false, "the value is the key of a provider of models, and of nothing else")
	fs.StringVar(&f.upstream, "upstream", "", "the value goes into this header of requests by or to an MCP server, and of nobody else's")
	fs.StringVar(&f.binding.User, "user", "", "the user name for --git (default: git), for --basic in requests of palyra.http.fetch, "+
		"or the only one for --ssh (default: any)")
	fs.StringVar(&f.binding.Env, "env", "", "the variable in which programs find the placeholder")
	fs.StringArrayVar(&f.binding.Workspaces, "workspace", nil, "only for calls in this directory or below; may be given again (default: all)")
	fs.StringArrayVar(&f.tools, "tool", nil, "only for calls of this tool; may be given again (default: all)")
	return cmd
}

// bindingText says what a binding does.
func bindingText(b secrets.Binding) string {
	if b.Kind.Keys() {
		return keyText(b)
	}
	place := string(b.Kind)
	if b.Place != "" {
		place += " " + b.Place
	}
	if b.Kind == secrets.SigV4 {
		return fmt.Sprintf("the secret %s signs requests for %s at %s; programs find placeholders in %s and %s", show.Line(b.Secret),
			show.Line(b.Place), show.Line(strings.Join(b.Hosts, ", ")), secrets.EnvAWSID, secrets.EnvAWSSecret)
	}
	text := fmt.Sprintf("the secret %s goes into %s at %s", show.Line(b.Secret), show.Line(place), show.Line(strings.Join(b.Hosts, ", ")))
	if b.Env != "" {
		text += "; programs find a placeholder in " + show.Line(b.Env)
	}
	return text
}

func vaultUnbindCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "unbind NAME", Short: "Remove a binding; the secret stays", Args: syntax.Takes("NAME"), Example: "  palyra vault unbind github",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			err := c.UnbindSecret(ctx, args[0])
			return inv.Answer(err, map[string]string{"name": args[0]}, func(w io.Writer) { fmt.Fprintf(w, "%s: removed\n", show.Line(args[0])) })
		}),
	}
}

func vaultBindingsCommand(inv *invocation.Invocation) *cobra.Command {
	cmd := invocation.List[secrets.Binding]{
		Short: "List how secrets may be used", Example: "  palyra vault bindings --json",
		Name: "bindings", Find: (*client.Client).Bindings,
		Head: []string{"NAME", "SECRET", "KIND", "PLACE", "HOSTS", "VARIABLE", "WORKSPACES"},
		Row: func(b secrets.Binding) []string {
			return []string{
				b.Name, b.Secret, string(b.Kind), b.Place, strings.Join(b.Hosts, " "), b.Env, strings.Join(screen.Some(b.Workspaces), " "),
			}
		},
	}.Command(inv)
	cmd.Use = "bindings"
	return cmd
}
