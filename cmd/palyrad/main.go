// Command palyrad is Palyra's daemon, in the foreground. 'palyra up' starts the same program.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"palyra"
	"palyra/internal/config"
	"palyra/internal/daemon"
	"palyra/internal/heaptrim"
	"palyra/internal/mask"
	"palyra/internal/nocore"
)

// Stamped by the build: the version, and the SHA-256 of the palyra-cell and the palyra-wasm that
// belong to this program. Without the second no program can be run, without the third no skill.
var (
	version = "dev"
	cell    = ""
	wasm    = ""
)

const usage = `palyrad runs Palyra's daemon in the foreground.

usage: palyrad [--home DIR] [--set KEY=VALUE]... [--new-state] [--rollback-policy WHAT] [--version]

  --home DIR         keep everything under DIR (default: $PALYRA_HOME, else the XDG directories)
  --set KEY=VALUE    override a setting, such as approvals.wait_ms=60000 (see 'palyra config show')
  --new-state        put the state that is there, or what is left of one, aside and begin
                     a new one; nothing is removed
  --rollback-policy WHAT
                     serve nothing: put earlier policies back into force (previous, a
                     digest or a preset), as 'palyra policy rollback --offline' does
  --version          print the version

It serves two sockets, agent.sock and operator.sock, and what the settings open
besides (paired devices, the console), until SIGTERM or SIGINT.
On SIGHUP it reads the directory policy.dir again; where none is set it goes on.
`

// settings collects repeated --set flags.
type settings map[string]string

// String implements flag.Value.
func (s settings) String() string { return "" }

// Set implements flag.Value.
func (s settings) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("want KEY=VALUE")
	}
	s[key] = value
	return nil
}

func main() {
	if err := nocore.Set(); err != nil { // its memory has secrets
		fmt.Fprintln(os.Stderr, "palyrad: memory would be left behind after a crash:", err)
		os.Exit(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heaptrim.Slack)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	go heaptrim.Watch(ctx, heaptrim.Every)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("palyrad", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { _, _ = fmt.Fprint(stderr, usage) }
	home := flags.String("home", "", "")
	show := flags.Bool("version", false, "")
	rollback := flags.String("rollback-policy", "", "")
	anew := flags.Bool("new-state", false, "")
	set := settings{}
	flags.Var(set, "set", "")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *show {
		_, _ = fmt.Fprintln(stdout, "palyrad", version)
		return 0
	}
	if flags.NArg() > 0 {
		flags.Usage()
		return 2
	}
	masker := new(mask.Masker)
	stderr = masker.Lines(stderr)
	work := func() error { return serve(ctx, config.Options{Home: *home, Flags: set}, *anew, masker, stderr) }
	if *rollback != "" {
		work = func() error { return goBack(ctx, config.Options{Home: *home, Flags: set}, *rollback, stdout) }
	}
	if err := work(); err != nil {
		e := palyra.AsError(err)
		text := e.Text
		if e.Reason == palyra.ReasonInternal {
			text = err.Error() // the terminal is the operator's own, so the error is shown in full
		}
		_, _ = fmt.Fprintf(stderr, "palyrad: %s\n", text)
		if e.Remedy != "" && e.Reason != palyra.ReasonInternal {
			_, _ = fmt.Fprintf(stderr, "  remedy: %s\n", e.Remedy)
		}
		return 1
	}
	return 0
}

func serve(ctx context.Context, o config.Options, anew bool, masker *mask.Masker, stderr io.Writer) (err error) {
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	d, err := daemon.New(ctx, daemon.Config{
		Settings: cfg, Version: version, CellDigest: cell, WasmDigest: wasm, NewState: anew, Log: logger(cfg.Log, stderr), Mask: masker,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Run(ctx)
}

// goBack puts earlier policies into force and prints the result.
func goBack(ctx context.Context, o config.Options, to string, stdout io.Writer) error {
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	a, err := daemon.RollbackPolicy(ctx, daemon.Config{Settings: cfg, Version: version, Log: logger(cfg.Log, io.Discard)}, to)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(a)
}

func logger(c config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // config.Load has checked it
	}
	o := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
