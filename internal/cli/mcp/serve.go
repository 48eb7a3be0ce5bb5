package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/config"
	"palyra/internal/mcp/serve"
	"palyra/internal/show"
)

type mcpServeOptions struct {
	address, tokenFile, workspace string
	pending                       screen.SpanFlag
	result                        screen.SizeFlag
}

func serveCommand(inv *invocation.Invocation) *cobra.Command {
	var o mcpServeOptions
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the tools to an MCP client", Args: syntax.Takes(),
		Long: "Speaks MCP on stdin and stdout, as Claude Code, Codex, Cursor and other clients start\n" +
			"it; 'palyra mcp install' writes their configuration. Every tool of 'palyra tools\n" +
			"list' is there, its dots written as underscores. Each call walks the gate as one of\n" +
			"agent:local, or of the agent whose token " + invocation.TokenVariable + " names.\n\n" +
			"While a call waits for your answer the client is told which approval is open. Clients\n" +
			"give up after a minute or so: before that the call is answered with 'pending', and\n" +
			"the tool palyra_call_wait gets its result later. A client's cancel ends the call.\n\n" +
			"It starts no daemon. While none answers it offers one tool, which says what to do.\n\n" +
			"With --http it serves any number of clients at http://ADDR/mcp, on a loopback address\n" +
			"only. They must show the token of --token-file, which is made if it does not exist.",
		Example: "  palyra mcp serve --workspace ~/project\n" +
			"  palyra mcp serve --http 127.0.0.1:7641",
		RunE: inv.AsAgent(func(ctx context.Context, c *client.Client, _ []string) error { return serveMCP(ctx, inv, c, o) }),
	}
	f := cmd.Flags()
	f.StringVar(&o.address, "http", "", "serve streamable HTTP at this loopback address, such as 127.0.0.1:7641")
	f.StringVar(&o.tokenFile, "token-file", "", "the token that HTTP clients show (default: mcp.token beside the daemon's state)")
	f.StringVarP(&o.workspace, "workspace", "w", "", "directory to work in (default: the current one; with --remote it must be given)")
	f.Var(&o.pending, "pending-after",
		"answer a call that takes longer with 'pending' (default: mcp.pending_after_ms of the configuration, 45s)")
	f.Var(&o.result, "result-bytes",
		"most that a model is given of one result (default: what the client is known to pass on: 10000 bytes for Codex, 32K else)")
	return cmd
}

// maxResult is the largest result for a model.
const maxResult = 1 << 20

// serveMCP serves until the client disconnects or the person ends it.
func serveMCP(ctx context.Context, inv *invocation.Invocation, c *client.Client, o mcpServeOptions) error {
	if o.tokenFile != "" && o.address == "" {
		return exit.Usagef("--token-file goes with --http")
	}
	place, err := inv.WorkspaceOf(o.workspace)
	if err != nil {
		return err
	}
	if o.pending == 0 {
		c, err := inv.Config()
		if err != nil {
			return err
		}
		o.pending = screen.SpanFlag(c.MCP.PendingAfter())
	}
	s, err := serve.New(ctx, serve.Config{
		Backend: c, Version: inv.Version, Workspace: place, PendingAfter: time.Duration(o.pending),
		ResultBytes: int(min(int64(o.result), maxResult)),
		Log:         slog.New(slog.NewTextHandler(inv.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if o.address != "" {
		return serveHTTP(ctx, inv, s, o)
	}
	if terminal.Is(inv.Stdout) {
		inv.Say("palyra: this speaks MCP, for programs; connect one with `palyra mcp install`")
	}
	return s.Stdio(ctx, inv.Stdin, inv.Stdout)
}

// serveHTTP serves clients on a loopback address.
func serveHTTP(ctx context.Context, inv *invocation.Invocation, s *serve.Server, o mcpServeOptions) error {
	host, _, err := net.SplitHostPort(o.address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return exit.Usagef("--http takes a loopback address with a port, such as 127.0.0.1:7641")
	}
	token, file, err := mcpToken(inv, o.tokenFile)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.address)
	if err != nil {
		return exit.Failedf(palyra.ReasonConfig, "cannot listen on %s", o.address).WithRemedy("choose a port that is free").WithCause(err)
	}
	url := "http://" + l.Addr().String() + serve.Path
	if inv.JSON {
		if err := inv.PrintJSON(map[string]string{"url": url, "token_file": file}); err != nil {
			return err
		}
	}
	inv.Say("palyra: MCP at %s", url)
	inv.Say("  token   in %s; clients send it as 'Authorization: Bearer TOKEN'", show.Arg(file))
	return s.HTTP(ctx, l, token)
}

// mcpToken reads the token of HTTP clients, or makes one.
func mcpToken(inv *invocation.Invocation, path string) (palyra.Secret, string, error) {
	if path == "" {
		paths, err := inv.Paths()
		if err != nil {
			return palyra.Secret{}, "", err
		}
		path = filepath.Join(filepath.Dir(paths.State), "mcp.token")
	}
	if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return palyra.Secret{}, "", exit.Failedf(palyra.ReasonBadCredential, "cannot make the token file %s: %v", path, bareError(err)).
			WithRemedy("name another with --token-file")
	}
	raw, err := config.ReadPrivate(path, invocation.MaxToken)
	if err != nil {
		return palyra.Secret{}, "", exit.Failedf(palyra.ReasonBadCredential, "the token in %s: the file %v", path, err).
			WithRemedy("make it yours alone with chmod 600, or remove it to have a new one made")
	}
	return palyra.NewSecret([]byte(strings.TrimSpace(string(raw)))), path, nil
}

// makeToken makes a token file, whole and private from its first byte on.
func makeToken(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, rand.Text())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(path)
	}
	return err
}

// bareError is a file's error without its path.
func bareError(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}
