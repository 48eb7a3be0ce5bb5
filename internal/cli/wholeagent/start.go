package wholeagent

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/proposal"
	"palyra/internal/cli/screen"
	"palyra/internal/profile"
	"palyra/internal/show"
)

// Options are the flags of a start by name.
type Options struct {
	Print    bool
	modelURL string
	keyFile  string
}

// Flags adds them.
func (o *Options) Flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.Print, "print", false, "with an agent's name: say what would be done, and do nothing")
	f.StringVar(&o.modelURL, "model-url", "",
		"with an agent's name: a model server of your own, in the place of its maker's (http://127.0.0.1:8080/v1)")
	f.StringVar(&o.keyFile, "key-file", "",
		"with an agent's name: move the key in this file, which only you can read, into the vault, and lend it from there")
	_ = cmd.MarkFlagFilename("key-file")
}

// Given reports whether one of them is set: they are for agents by name only.
func (o *Options) Given() bool { return o.Print || o.modelURL != "" || o.keyFile != "" }

// Start is how an agent is started: what 'palyra agent run NAME --print' shows.
type Start struct {
	Agent    string   `json:"agent"`
	Title    string   `json:"title"`
	Read     string   `json:"read"`     // where the table has this from
	Program  string   `json:"program"`  // as it was found
	Command  []string `json:"command"`  // as it is run
	Headless bool     `json:"headless"` // it runs without a window
	Env      []string `json:"env"`      // NAME=VALUE
	Hosts    []Host   `json:"hosts"`    // that one question covers, at the start
	Silenced []Host   `json:"silenced"` // that it does not reach for
	Key      *Lent    `json:"key"`      // null: it signs in by itself, or needs none
	Profile  Profile  `json:"profile"`
	Why      []string `json:"why"`
	Resume   []string `json:"resume"` // the words after its name that go on with its last session
}

// Lent is the key that goes with it.
type Lent struct {
	Binding string `json:"binding"`
	Env     string `json:"env"` // the variable with the placeholder
}

// Profile is what its room has.
type Profile struct {
	Name    string   `json:"name"`
	File    string   `json:"file"`
	State   string   `json:"state"` // missing, current, changed, yours
	Visible []string `json:"visible"`
	Keeps   []string `json:"keeps"` // directories of the workspace's own that outlive runs
	Text    string   `json:"text"`
}

// Prepare finds out how an agent is started. It changes nothing but what --key-file says.
func Prepare(
	ctx context.Context, inv *invocation.Invocation, o Options, given *proposal.Options, name string, args []string,
) (Start, error) {
	s, err := Find(name)
	if err != nil {
		return Start{}, err
	}
	if inv.RemoteName() != "" {
		return Start{}, exit.Usagef("an agent is started by name where its program is: not with --remote")
	}
	st := Start{
		Agent: s.Name, Title: s.Title, Read: s.read(), Headless: s.IsHeadless(args),
		Silenced: screen.Some(s.Silenced), Why: screen.Some(s.Why), Env: []string{},
		Hosts: screen.Some(s.Hosts), Resume: screen.Some(s.Resume),
	}
	f := s.furnishing()
	real, err := st.find(inv, s, &f, reach(ctx, inv, given))
	if err != nil {
		return Start{}, err
	}
	if st.Profile, err = shown(inv, f); err != nil {
		return Start{}, err
	}
	k := keys{inv: inv, setup: s, given: given, options: o}
	more, err := st.model(ctx, s, &k)
	if err != nil {
		return Start{}, err
	}
	st.Command = slices.Concat(s.Launch, []string{real}, s.Args, more, args)
	vars := given.Names()
	for _, pair := range st.Env {
		name, _, _ := strings.Cut(pair, "=")
		vars = append(vars, name)
	}
	for _, pair := range pairs(s.Env) {
		if name, _, _ := strings.Cut(pair, "="); !slices.Contains(vars, name) {
			st.Env = append(st.Env, pair)
		}
	}
	return st, nil
}

// model leads the agent to its model: the person's own server, or its maker's with a key or a person signed in.
func (st *Start) model(ctx context.Context, s Setup, k *keys) (args []string, err error) {
	if k.options.modelURL != "" {
		at, err := place(k.options.modelURL)
		if err != nil {
			return nil, err
		}
		st.Hosts = []Host{{At: at, What: "your model server"}}
		fill := strings.NewReplacer("{{url}}", k.options.modelURL)
		for _, pair := range pairs(s.OwnModel.Env) {
			st.Env = append(st.Env, fill.Replace(pair))
		}
		for _, word := range s.OwnModel.Args {
			args = append(args, fill.Replace(word))
		}
		return args, nil
	}
	lent, key, err := k.find(ctx)
	if err != nil {
		return nil, err
	}
	if lent == nil {
		st.Hosts = append(st.Hosts, s.SignIn...)
		return nil, nil
	}
	st.Key = lent
	for _, at := range key.Hosts {
		if !slices.ContainsFunc(st.Hosts, func(h Host) bool { return h.At == at }) {
			st.Hosts = append(st.Hosts, Host{At: at, What: "its models"})
		}
	}
	return key.Args, nil
}

// Into fills the options of the call.
func (st Start) Into(given *proposal.Options) {
	given.Profile = st.Profile.Name
	given.Env = append(given.Env, st.Env...)
	for _, h := range st.Hosts {
		if !slices.Contains(given.Egress, h.At) {
			given.Egress = append(given.Egress, h.At)
		}
	}
	if st.Key != nil {
		given.Lend(st.Key.Binding)
	}
}

// Write writes the profile where it is not there or not as it should be.
func (st Start) Write(inv *invocation.Invocation) error {
	if st.Profile.State != missing && st.Profile.State != changed {
		return nil
	}
	if err := profile.Save(st.Profile.File, []byte(st.Profile.Text)); err != nil {
		return err
	}
	inv.Say("palyra: %s: written; the agent's room has %s, read-only, and keeps its settings for this workspace", show.Line(st.Profile.File),
		show.Line(strings.Join(append(slices.Clone(st.Profile.Visible), "no other part of your home"), ", ")))
	return nil
}

// The states of a profile's file.
const (
	missing = "missing" // it is written at the start
	current = "current"
	changed = "changed" // it is written anew at the start
	yours   = "yours"   // it has no mark of ours, and is used as it is
)

// furnishing is the agent's room.
func (s Setup) furnishing() profile.Furnishing {
	return profile.Furnishing{
		Name: s.Name, Description: s.Title + ", whole, by 'palyra agent run " + s.Name + "'", By: "palyra agent run " + s.Name,
		Includes: s.Includes, Caches: s.Caches, Files: s.Files,
	}
}

// shown is the profile as it is and as it should be.
func shown(inv *invocation.Invocation, f profile.Furnishing) (Profile, error) {
	text, err := f.Document()
	if err != nil {
		return Profile{}, err
	}
	c, err := inv.Config()
	if err != nil {
		return Profile{}, err
	}
	p := Profile{
		Name: f.Name, File: filepath.Join(c.Paths.Profiles(), f.Name+".toml"), Visible: screen.Some(f.Mounts), Keeps: []string{},
		Text: string(text), State: changed,
	}
	for _, c := range f.Caches {
		p.Keeps = append(p.Keeps, c.Name)
	}
	old, err := os.ReadFile(p.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.State = missing
	case err != nil:
		return Profile{}, exit.Failedf(palyra.ReasonConfig, "%s cannot be read: %v", show.Line(p.File), err)
	case bytes.Equal(old, text):
		p.State = current
	case !bytes.HasPrefix(old, []byte(f.Mark())):
		p.State, p.Text = yours, string(old)
	}
	return p, nil
}

// packageDir is the directory that has a program and what it stands on: all of its node_modules, or where it lies.
func packageDir(real string) string {
	const modules = "/node_modules/"
	if i := strings.Index(real, modules); i >= 0 {
		return real[:i+len(modules)-1]
	}
	return filepath.Dir(real)
}

// ofTheSystem reports whether rooms see a program anyway.
func ofTheSystem(real string) bool {
	return slices.ContainsFunc([]string{"/usr/", "/opt/", "/bin/", "/lib/"}, func(dir string) bool { return strings.HasPrefix(real, dir) })
}

// place is the host and port of a model server.
func place(address string) (string, error) {
	u, err := url.Parse(address)
	unfit := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"\\`$'", r) } // it goes into settings
	if err != nil || strings.ContainsFunc(address, unfit) || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", exit.Usagef("--model-url %s is not the address of a server: http://127.0.0.1:8080/v1", show.Arg(address))
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return strings.ToLower(u.Hostname()) + ":" + port, nil
}

// pairs are variables in order.
func pairs(env map[string]string) (all []string) {
	for name, value := range env {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all
}
