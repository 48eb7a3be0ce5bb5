package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

const (
	maxImport  = 1 << 20
	maxEntries = 64
)

// importRemedy names the files that can be read.
const importRemedy = "name a file such as ~/.claude.json, .mcp.json or ~/.cursor/mcp.json; what other clients have is added with " +
	"`palyra mcp add`"

// imported is one server of a client's file.
type imported struct {
	Name       string                    `json:"name"`
	Definition palyra.UpstreamDefinition `json:"definition"`
	Outcome    string                    `json:"outcome"` // added, refused, skipped or found
	Why        string                    `json:"why,omitempty"`
	Secrets    []string                  `json:"secrets,omitempty"` // that come into the vault with it
	waits      int                       // number of its unapproved tools
	found      []found
}

func importCommand(inv *invocation.Invocation) *cobra.Command {
	var yes, printOnly, approve bool
	var workspace string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Put the MCP servers of a client's file behind the gate", Args: syntax.Takes("FILE"),
		Long: "Reads the mcpServers of a client's file (Claude Code, Cursor and others have one), shows\n" +
			"what it would add, asks, and adds them like 'palyra mcp add'. Headers, and variables of\n" +
			"which is known where they go, come into the vault as secrets for that host; the server\n" +
			"finds a placeholder, or Palyra sends the header. Other variables that look like secrets\n" +
			"are refused. Palyra's own entry is skipped. The file stays as it is: take the servers out of it yourself, or the client\n" +
			"goes on using them past the gate.",
		Example: "  palyra mcp import ~/.cursor/mcp.json --workspace .\n  palyra mcp import .mcp.json --print",
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, args []string) error {
			list, err := readServers(args[0])
			if err != nil {
				return err
			}
			if err := importInto(inv, list, workspace); err != nil {
				return err
			}
			if !printOnly {
				if err := agreed(ctx, inv, list, yes); err != nil {
					return err
				}
				for i := range list {
					addImported(ctx, c, &list[i], approve)
				}
			}
			if err := inv.Emit(map[string][]imported{"servers": screen.Some(list)}, func(w io.Writer) { printImported(w, list) }); err != nil ||
				printOnly {
				return err
			}
			return afterImport(inv, list)
		}),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "add them without a question")
	cmd.Flags().BoolVar(&printOnly, "print", false, "only show what would be added")
	cmd.Flags().BoolVar(&approve, "approve", false, "approve their tools as they are found, without a look")
	cmd.Flags().StringVar(&workspace, "workspace", "", "a directory that they work in, or DIR:ro to only read it")
	return cmd
}

// importInto gives the programs in the list a workspace.
func importInto(inv *invocation.Invocation, list []imported, workspace string) error {
	if workspace == "" {
		return nil
	}
	d, err := definition(inv, upstreamFlags{workspace: workspace, dash: 1}, []string{"", ""})
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].Definition.Transport == palyra.TransportStdio {
			list[i].Definition.Workspace = d.Workspace
		}
	}
	return nil
}

// agreed shows what would be added and asks for a yes.
func agreed(ctx context.Context, inv *invocation.Invocation, list []imported, yes bool) error {
	if yes {
		return nil
	}
	if inv.JSON {
		return exit.Usagef("--json asks nothing: add --yes to add them, or --print")
	}
	printImported(inv.Stdout, list)
	answer, err := terminal.AskLine(ctx, "Start these servers in the sandbox and add them? [y/N] ")
	if err != nil {
		return exit.Failedf(palyra.ReasonCancelled, "there is nobody to ask").WithRemedy("run it on a terminal, or with --yes").WithCause(err)
	}
	if s := strings.ToLower(answer); s != "y" && s != "yes" {
		return exit.Failedf(palyra.ReasonCancelled, "nothing was added")
	}
	return nil
}

func addImported(ctx context.Context, c *client.Client, s *imported, approve bool) {
	if s.Outcome != "found" {
		return
	}
	defer s.forget()
	var u palyra.Upstream
	back, err := s.put(ctx, c)
	if err == nil {
		u, err = c.AddUpstream(ctx, s.Name, s.Definition, approve)
	}
	if err != nil {
		back()
		e := palyra.AsError(err)
		s.Outcome, s.Why = "refused", e.Text
		if e.Remedy != "" {
			s.Why += "; " + e.Remedy
		}
		return
	}
	s.Outcome, s.waits = "added", len(waitingTools(u, nil))
}

// afterImport prints the remaining steps. It is a failure if nothing was added.
func afterImport(inv *invocation.Invocation, list []imported) error {
	added := 0
	for _, s := range list {
		if s.Outcome == "added" {
			added++
		}
		if s.waits > 0 {
			inv.Say("%s of %s will be offered once approved: palyra mcp approve %s", screen.Count(int64(s.waits), "tool"), show.Line(s.Name),
				show.Arg(s.Name))
		}
	}
	if added == 0 {
		return exit.Failedf(palyra.ReasonUpstreamFailed, "no server was added").
			WithRemedy("see what is said of each, and add it with `palyra mcp add`")
	}
	inv.Say("take what was added out of the client's own file, or the client goes on using it past the gate")
	return nil
}

// printImported prints the table and below it the reasons in full.
func printImported(w io.Writer, list []imported) {
	var rows [][]string
	for _, s := range list {
		rows = append(rows, []string{s.Name, s.Outcome, placeOf(palyra.Upstream{UpstreamDefinition: s.Definition})})
	}
	screen.Table(w, []string{"NAME", "OUTCOME", "SERVER"}, rows)
	for _, s := range list {
		if text := s.brings(); text != "" {
			fmt.Fprintf(w, "%s: %s\n", show.Line(s.Name), show.Line(text))
		}
		if s.Why != "" {
			fmt.Fprintf(w, "%s: %s\n", show.Line(s.Name), show.Line(s.Why))
		}
	}
}

// serverEntry is a server in a client's file.
type serverEntry struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

// readServers reads a client's file.
func readServers(name string) ([]imported, error) {
	f, err := os.Open(filepath.Clean(name))
	if err != nil {
		return nil, exit.Failedf(palyra.ReasonFileNotFound, "%s cannot be read", show.Arg(name)).WithRemedy(importRemedy).WithCause(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxImport+1))
	if err != nil || len(raw) > maxImport {
		return nil, exit.Failedf(palyra.ReasonFileTooLarge, "%s cannot be read, or has more than %d bytes", show.Arg(name), maxImport).
			WithRemedy(importRemedy).WithCause(err)
	}
	return parseServers(raw)
}

// parseServers reads mcpServers, or servers as one client calls them.
func parseServers(raw []byte) ([]imported, error) {
	var file struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		Others  map[string]json.RawMessage `json:"servers"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, exit.Failedf(palyra.ReasonMalformedInput, "the file is not JSON with mcpServers").WithRemedy(importRemedy).WithCause(err)
	}
	if file.Servers == nil {
		file.Servers = file.Others
	}
	if n := len(file.Servers); n == 0 || n > maxEntries {
		return nil, exit.Failedf(palyra.ReasonMalformedInput, "the file has %d servers under mcpServers; 1 to %d can be imported", n, maxEntries).
			WithRemedy(importRemedy)
	}
	var out []imported
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		s := imported{Name: plainName(name), Outcome: "found"}
		var e serverEntry
		if err := json.Unmarshal(file.Servers[name], &e); err != nil {
			s.Outcome, s.Why = "refused", "the entry cannot be read"
		} else {
			e.toDefinition(&s)
		}
		out = append(out, s)
	}
	return out, nil
}

// toDefinition turns an entry into a definition, or sets why it cannot.
func (e serverEntry) toDefinition(s *imported) {
	refuse := func(why string) { s.Outcome, s.Why = "refused", why }
	if e.palyra() {
		s.Outcome, s.Why = "skipped", "it is Palyra itself"
		s.Definition = palyra.UpstreamDefinition{Transport: palyra.TransportStdio, Command: append([]string{e.Command}, e.Args...)}
		return
	}
	switch {
	case e.Command != "":
		s.Definition = palyra.UpstreamDefinition{Transport: palyra.TransportStdio, Command: append([]string{e.Command}, e.Args...), Env: e.Env}
	case e.URL != "":
		s.Definition = palyra.UpstreamDefinition{Transport: palyra.TransportHTTP, URL: e.URL}
	default:
		refuse("it has neither a command nor a url")
		return
	}
	for _, v := range e.Env {
		if variable.MatchString(v) {
			refuse("a variable is filled in by the client, from a place that Palyra does not read; leave it out or write the value")
			return
		}
	}
	switch {
	case e.Type == "sse":
		refuse("the transport sse is not spoken; use the server's streamable HTTP URL")
	case e.URL == "" || len(e.Headers) == 0:
		s.keepsVariables()
	default:
		if why := s.keepsHeaders(e.Headers); why != "" {
			refuse(why)
		}
	}
}

// palyra reports whether 'palyra mcp install' wrote the entry.
func (e serverEntry) palyra() bool {
	i := slices.Index(e.Args, "serve")
	return filepath.Base(e.Command) == "palyra" && i > 0 && e.Args[i-1] == "mcp"
}

var (
	variable = regexp.MustCompile(`\$\{[^}]*\}`)
	notName  = regexp.MustCompile(`[^a-z0-9]+`)
)

// plainName makes an upstream's name from the client's name of it.
func plainName(name string) string {
	s := strings.Trim(notName.ReplaceAllString(strings.ToLower(name), "-"), "-")
	return strings.Trim(s[:min(len(s), 32)], "-")
}
