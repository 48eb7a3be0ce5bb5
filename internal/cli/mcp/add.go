package mcp

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// upstreamFlags are those of mcp add.
type upstreamFlags struct {
	env       []string
	egress    []string
	secrets   []string
	workspace string
	profile   string
	timeout   time.Duration
	approve   bool
	replace   bool
	dash      int // number of arguments before "--"; -1: there is no "--"
}

func addCommand(inv *invocation.Invocation) *cobra.Command {
	var f upstreamFlags
	cmd := &cobra.Command{
		Use: "add NAME [flags] (-- CMD [ARG]... | URL)", Short: "Put an MCP server behind the gate",
		Long: "Starts an MCP server in the full sandbox, or reaches one at a URL through the egress\n" +
			"guard, and pins what its tools are. They are offered as mcp.NAME.TOOL once they are\n" +
			"approved; a tool that changes later is not, until somebody approves it again.\n\n" +
			"The server has no network but the hosts of --egress, and of your files only the\n" +
			"workspace: DIR to work in it, DIR:ro to read it. Without one it has an empty\n" +
			"directory of its own. Programs and packages that lie elsewhere come by a profile\n" +
			"(see 'palyra sandbox profiles'). Secrets come by\n" +
			"binding (see 'palyra vault bind'): a program gets a placeholder, whose value goes in\n" +
			"on the way to the bound host; a server at a URL gets the value from the daemon.",
		Example: "  palyra mcp add files --workspace ~/project --profile node -- node /opt/servers/filesystem.js ~/project\n" +
			"  palyra mcp add search --approve https://mcp.example.com/mcp\n" +
			"  palyra mcp add issues --secret issues-token https://issues.example.com/mcp",
		Args: func(cmd *cobra.Command, args []string) error {
			f.dash = cmd.ArgsLenAtDash()
			return f.check(args)
		},
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			d, err := definition(inv, f, args)
			if err != nil {
				return err
			}
			add := c.AddUpstream
			if f.replace {
				add = c.ReplaceUpstream
			}
			u, err := add(ctx, args[0], d, f.approve)
			return inv.Answer(err, wholeUpstream(u), func(w io.Writer) { added(inv, w, u) })
		}),
		ValidArgsFunction: syntax.CompleteNothing,
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.env, "env", nil, "a variable of the server, as NAME=VALUE (repeatable)")
	fl.StringArrayVar(&f.egress, "egress", nil, "a host that it may reach, as HOST:PORT (repeatable)")
	fl.StringArrayVar(&f.secrets, "secret", nil, "a secret that it uses, by the name of its binding (repeatable)")
	fl.StringVar(&f.workspace, "workspace", "", "a directory that it works in, or DIR:ro to only read it")
	fl.StringVar(&f.profile, "profile", "", "what its sandbox is furnished with")
	fl.DurationVar(&f.timeout, "timeout", 0, "the most time of one call")
	fl.BoolVar(&f.replace, "replace", false, "in the place of the server of that name; tools that stay as they were approved stay so")
	fl.BoolVar(&f.approve, "approve", false, "approve its tools as they are found, without a look")
	return cmd
}

// check requires either a command or a URL.
func (f upstreamFlags) check(args []string) error {
	switch {
	case f.dash < 0 && len(args) == 2, f.dash == 1 && len(args) > 1:
		return nil
	case len(args) == 0 || f.dash == 0:
		return exit.Usagef("NAME is missing")
	case f.dash < 0 && len(args) > 2:
		return exit.Usagef("%q is one argument too many: a command stands after --", args[2])
	}
	return exit.Usagef("give a command after --, or a URL")
}

// definition is the upstream that the flags and arguments define.
func definition(inv *invocation.Invocation, f upstreamFlags, args []string) (palyra.UpstreamDefinition, error) {
	d := palyra.UpstreamDefinition{Transport: palyra.TransportHTTP, TimeoutMS: f.timeout.Milliseconds()}
	if f.dash < 0 {
		d.URL = args[1]
		if !strings.HasPrefix(d.URL, "https://") && !strings.HasPrefix(d.URL, "http://") {
			return d, exit.Usagef("%q is no URL: a command stands after --", d.URL)
		}
	} else {
		d.Transport, d.Command = palyra.TransportStdio, args[1:]
	}
	d.Egress, d.Profile, d.Bindings = f.egress, f.profile, f.secrets
	for _, pair := range f.env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return d, exit.Usagef("--env needs NAME=VALUE")
		}
		if d.Env == nil {
			d.Env = map[string]string{}
		}
		d.Env[name] = value
	}
	if f.workspace != "" {
		dir, only := strings.CutSuffix(f.workspace, palyra.UpstreamReadOnly)
		dir, err := inv.Directory(dir)
		if err != nil {
			return d, err
		}
		if d.Workspace = dir; only {
			d.Workspace += palyra.UpstreamReadOnly
		}
	}
	return d, nil
}

// added prints the result, and the next step.
func added(inv *invocation.Invocation, w io.Writer, u palyra.Upstream) {
	fmt.Fprintf(w, "%s: added (%s)\n", show.Line(u.Name), show.Line(u.Server))
	printUpstreamTools(w, u)
	if n := len(waitingTools(u, nil)); n > 0 {
		inv.Say("%s will be offered once approved: palyra mcp approve %s", screen.Count(int64(n), "tool"), show.Arg(u.Name))
	}
}

// wholeUpstream replaces null lists by empty ones.
func wholeUpstream(u palyra.Upstream) palyra.Upstream {
	u.Tools = screen.Some(u.Tools)
	return u
}

func printUpstreamTools(w io.Writer, u palyra.Upstream) {
	var rows [][]string
	for _, t := range u.Tools {
		rows = append(rows, []string{t.Name, string(t.State), t.Why})
	}
	if len(rows) > 0 {
		screen.Table(w, []string{"TOOL", "STATE", "WHY"}, rows)
	}
}

// waitingTools are the tools in quarantine, of the given names or all.
func waitingTools(u palyra.Upstream, names []string) (out []palyra.UpstreamTool) {
	for _, t := range u.Tools {
		named := len(names) == 0
		for _, n := range names {
			named = named || n == t.Name || n == string(t.Tool)
		}
		if named && t.State == palyra.UpstreamToolQuarantined {
			out = append(out, t)
		}
	}
	return out
}
