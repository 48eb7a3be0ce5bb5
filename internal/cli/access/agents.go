package access

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
	"palyra/internal/durable"
	"palyra/internal/show"
)

// Agents is `palyra agent`, with the command that runs one.
func Agents(inv *invocation.Invocation, run *cobra.Command) *cobra.Command {
	return syntax.Parent("agent", "Name the agents that may call tools, and run one in the sandbox",
		agentAddCommand(inv), agentListCommand(inv), agentRemoveCommand(inv), run)
}

// newAgent is an agent with its token, which is shown only this once.
type newAgent struct {
	palyra.Agent
	Token     string `json:"token,omitempty"`
	TokenFile string `json:"token_file,omitempty"`
}

func agentAddCommand(inv *invocation.Invocation) *cobra.Command {
	var owner, out string
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Name an agent and make its token", Args: syntax.Takes("NAME"),
		Long: "Makes agent:NAME and a token for it. The token is shown this once, or written to a\n" +
			"file that only you can read; set " + invocation.TokenVariable + " to that file for the agent.",
		Example: "  palyra agent add ci --out ci.token\n  " + invocation.TokenVariable + "=ci.token palyra tools list",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			agent, token, err := c.AddAgent(ctx, args[0], palyra.Principal(owner))
			if err != nil {
				return err
			}
			defer token.Destroy()
			return handOver(inv, agent, token, out)
		}),
	}
	cmd.Flags().StringVar(&owner, "owner", "", "whose agent it is (default: yours)")
	cmd.Flags().StringVarP(&out, "out", "o", "", "file for the token, readable by you only (default: stdout)")
	_ = cmd.MarkFlagFilename("out")
	return cmd
}

// handOver gives the token to the person: it is printed nowhere else.
func handOver(inv *invocation.Invocation, agent palyra.Agent, token palyra.Secret, out string) error {
	return token.Use(func(b []byte) error {
		result := newAgent{Agent: agent, TokenFile: out}
		if out == "" {
			result.Token = string(b)
		} else if err := durable.WriteFile(out, append(append([]byte{}, b...), '\n'), 0o600); err != nil {
			return exit.Failedf(palyra.ReasonInternal, "%s is added, but its token cannot be written: %v", agent.Principal, err).
				WithRemedy("remove the agent and add it again")
		}
		return inv.Emit(result, func(w io.Writer) {
			if out == "" {
				inv.Say("palyra: %s is added; its token is shown only now:", show.Line(string(agent.Principal)))
				fmt.Fprintln(w, show.Line(result.Token))
				return
			}
			fmt.Fprintf(w, "%s: added, token in %s\n", show.Line(string(agent.Principal)), show.Arg(out))
			inv.Say("palyra: give it to the agent by its file: %s=%s palyra tools list", invocation.TokenVariable, show.Arg(absolute(out)))
		})
	})
}

// absolute returns the absolute path.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func agentListCommand(inv *invocation.Invocation) *cobra.Command {
	return invocation.List[palyra.Agent]{
		Short: "List agents", Example: "  palyra agent list",
		Name: "agents", Find: (*client.Client).Agents,
		Head: []string{"AGENT", "OWNER", "ADDED", "REMOVED"},
		Row: func(x palyra.Agent) []string {
			return []string{string(x.Principal), string(x.Owner), screen.Stamp(x.AddedAt), screen.Stamp(x.RemovedAt)}
		},
	}.Command(inv)
}

func agentRemoveCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "End an agent's credential", Args: syntax.Takes("NAME"),
		Example: "  palyra agent remove ci",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			who := palyra.Principal(args[0])
			if !strings.HasPrefix(args[0], "agent:") {
				who = "agent:" + who
			}
			err := c.RemoveAgent(ctx, who)
			return inv.Answer(err, map[string]palyra.Principal{"principal": who},
				func(w io.Writer) { fmt.Fprintf(w, "%s: removed\n", show.Line(string(who))) })
		}),
	}
}
