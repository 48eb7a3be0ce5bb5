package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/mcp/install"
	"palyra/internal/show"
)

func (a *app) mcpInstall() *cobra.Command {
	var print bool
	var workspace string
	names := clientNames()
	cmd := &cobra.Command{
		Use: "install CLIENT", Short: "Connect an MCP client to Palyra", Args: takes("CLIENT"),
		Long: "Writes Palyra into the configuration of an MCP client: " + strings.Join(names, ", ") + ".\n" +
			"The user's own file is changed, or with --workspace that of a project. Everything\n" +
			"else in it stays as it is, the old file is kept beside it, and a file that cannot be\n" +
			"changed for certain is left alone. Start the client anew afterwards.",
		Example: "  palyra mcp install claude-code\n  palyra mcp install codex --print\n  palyra mcp install vscode --workspace ~/project",
		RunE: func(_ *cobra.Command, args []string) error {
			c, ok := install.Find(args[0])
			if !ok {
				return usage("the client %q is not known; it must be one of %s", args[0], strings.Join(names, ", "))
			}
			return a.installMCP(c, workspace, print)
		},
		ValidArgs: names,
	}
	cmd.Flags().BoolVar(&print, "print", false, "print the lines and where they go, and write nothing")
	cmd.Flags().StringVarP(&workspace, "workspace", "w", "", "write the file of this project, and have tools work there")
	return cmd
}

// installed is what install did, or would do.
type installed struct {
	Client string `json:"client"`
	install.Result
	Lines string `json:"lines"`
}

func (a *app) installMCP(c install.Client, workspace string, print bool) error {
	var err error
	if workspace != "" {
		if workspace, err = a.directory(workspace); err != nil {
			return err
		}
	}
	s, err := a.mcpCommand(workspace)
	if err != nil {
		return err
	}
	out := installed{Client: c.Name}
	if out.Lines, err = c.Lines(s); err != nil {
		return err
	}
	if out.Path, err = c.Path(a.places(), workspace); err != nil {
		return err
	}
	if !print {
		if !filepath.IsAbs(out.Path) {
			return noHome()
		}
		if out.Result, err = c.Write(out.Path, s); err != nil {
			return err
		}
	}
	return a.emit(out, func(w io.Writer) {
		a.sayInstalled(w, c, out, print)
		if out.Changed {
			a.say("  undo: %s", undo("mcp uninstall "+c.Name, workspace))
		}
	})
}

func (a *app) sayInstalled(w io.Writer, c install.Client, out installed, print bool) {
	switch {
	case print:
		a.say("palyra: these lines go into %s", show.Arg(out.Path))
		io.WriteString(w, out.Lines)
		return
	case !out.Changed:
		fmt.Fprintf(w, "%s: %s has Palyra already\n", c.Title, show.Arg(out.Path))
		return
	}
	fmt.Fprintf(w, "%s: Palyra is in %s\n", c.Title, show.Arg(out.Path))
	if out.Backup != "" {
		fmt.Fprintf(w, "  the file as it was: %s\n", show.Arg(out.Backup))
	}
	a.say("  next: start %s anew, and keep the daemon running with `palyra up --detach`", c.Title)
}

// mcpCommand is how a client starts this very program: by its full path, since
// clients that are started from a desktop have another PATH.
func (a *app) mcpCommand(workspace string) (install.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return install.Server{}, fmt.Errorf("cli: executable: %w", err)
	}
	s := install.Server{Command: self}
	paths, err := a.paths()
	if err != nil {
		return s, err
	}
	if paths.Home != "" {
		s.Args = append(s.Args, "--home", paths.Home)
	}
	if name := a.remoteName(); name != "" {
		s.Args = append(s.Args, "--remote", name)
	}
	s.Args = append(s.Args, "mcp", "serve")
	if workspace != "" {
		s.Args = append(s.Args, "--workspace", workspace)
	}
	return s, nil
}

// places is where clients keep their configuration.
func (a *app) places() install.Places {
	env := map[string]string{}
	for _, pair := range a.Env {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	p := install.Places{Home: env["HOME"], Config: env["XDG_CONFIG_HOME"]}
	if !filepath.IsAbs(p.Config) {
		p.Config = filepath.Join(p.Home, ".config")
	}
	return p
}
