package registry

import (
	"context"
	"slices"
	"testing"

	"palyra"
	"palyra/internal/skill"
	"palyra/internal/skill/archive"
	"palyra/internal/store"
)

// scripts plans as it is told and says what a run needed.
type scripts struct {
	planned skill.Script
	used    []string
	flows   []palyra.EgressFlow
}

func (s *scripts) Plan(_ context.Context, _ *palyra.Call, p *palyra.Plan, run skill.Script) error {
	s.planned = run
	p.Inputs = append(p.Inputs, run.Bound...)
	for _, name := range run.Granted.Programs {
		digest := palyra.SumBytes([]byte(name))
		p.Inputs = append(p.Inputs, palyra.Input{Path: "/usr/bin/" + name, Digest: digest}, skill.ProgramInput(run.ID, name, digest))
	}
	p.Enforcement.Mechanisms = run.Says
	return nil
}

func (s *scripts) Run(context.Context, palyra.Launch, *palyra.Call) palyra.Result {
	res := palyra.Result{Executor: "room", Egress: s.flows}
	if s.used != nil {
		res.Runtime = &palyra.Runtime{Used: s.used}
	}
	return res
}

// withScript is a world with a folder that has a script, granted all that it asks for.
func withScript(t *testing.T) (*world, *scripts) {
	t.Helper()
	w, run := newWorld(t), &scripts{}
	w.Scripts = run
	w.trust("acme", 1)
	raw, err := archive.Pack(map[string][]byte{
		skill.ManifestName: []byte(`format = "palyra-manifest/1"
id = "notes"
version = "1.0.0"
publisher = "acme"
description = "Notes."
[folder]
scripts = ["a.sh", "b.bin"]
[capabilities]
hosts = ["a.example:443", "b.example:443"]
programs = ["sh", "sort", "wc"]
read = ["."]
write = ["out"]
`), archive.Text: []byte("# Notes\n"), archive.Folder + "a.sh": []byte("#!/bin/sh -e\n"), archive.Folder + "b.bin": {0x7f},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := archive.Open(raw)
	if err == nil {
		raw, err = archive.Sign(p, key(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := w.install(raw)
	_, err = w.Enable(t.Context(), skill.Enabling{ID: s.ID, Digest: s.Digest, Granted: s.Capabilities, By: w.by})
	if err != nil {
		t.Fatal(err)
	}
	return w, run
}

// What a script needed is what is kept of its grant: programs by the names by which they were granted, paths as a manifest can
// name them, hosts that were reached; where nobody knows, all of it.
func TestWhatScriptsNeed(t *testing.T) {
	w, run := withScript(t)
	l, c := w.launch("skill.notes.run", `{"args":["x"],"script":"a.sh"}`)
	if got := run.planned; got.Program != "sh" || !slices.Equal(got.Options, []string{"-e"}) || !slices.Equal(got.Args, []string{"x"}) {
		t.Errorf("%+v", got)
	}
	run.used = []string{"programs:/usr/bin/sort", "programs:/usr/bin/none", "read:data", "read:.git/x", "write:out/deep", "secrets:other"}
	run.flows = []palyra.EgressFlow{
		{Host: "a.example", Port: 443, Verdict: palyra.FlowAllowed}, {Host: "b.example", Port: 443, Verdict: palyra.FlowDenied},
	}
	res := w.Call(t.Context(), l, c)
	want := []string{"hosts:a.example:443", "programs:sort", "read:.", "write:out/deep"}
	if res.Runtime == nil || !slices.Equal(res.Runtime.Used, want) || res.Runtime.Package != w.known["notes"].Digest {
		t.Errorf("%+v, want %q", res.Runtime, want)
	}
	run.used, run.flows = nil, nil
	if res := w.Call(t.Context(), l, c); !slices.Contains(res.Runtime.Used, "programs:wc") ||
		slices.Contains(res.Runtime.Used, "hosts:a.example:443") {
		t.Errorf("%+v", res.Runtime)
	}
}

// A script that is none, is not run by what was granted, or whose package is not what it was, does not run.
func TestScriptsAreRefused(t *testing.T) {
	w, _ := withScript(t)
	plan := func(args string) error {
		_, is, err := w.lookup("skill.notes.run")
		if err != nil {
			return err
		}
		p := palyra.Plan{Tool: is.Name, Arguments: []byte(args)}
		return w.Plan(t.Context(), &palyra.Call{Tool: is}, &p)
	}
	for args, want := range map[string]palyra.Reason{
		`{"script":"SKILL.md"}`: palyra.ReasonFileNotFound, `{"script":"../a.sh"}`: palyra.ReasonFileNotFound, `{}`: palyra.ReasonFileNotFound,
		`{"script":"b.bin"}`: skill.ReasonManifest,
	} {
		if e := palyra.AsError(plan(args)); e.Reason != want || e.Remedy == "" {
			t.Errorf("%s: %v", args, e)
		}
	}
	l, _ := w.launch("skill.notes.run", `{"script":"a.sh"}`)
	if got, err := w.Folder(t.Context(), l.Plan()); err != nil || len(got.Files) != 3 || got.ID != "notes" {
		t.Errorf("%+v %v", got, err)
	}
	other := l.Plan()
	other.Inputs = nil
	if _, err := w.Folder(t.Context(), other); palyra.AsError(err).Reason != palyra.ReasonPlanChanged {
		t.Error(err)
	}
	err := w.DB.Write(t.Context(), "test", func(tx *store.Tx) error { // on disk, after it was planned
		_, err := tx.Exec(`UPDATE skill_packages SET data = x'504b0506'`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Folder(t.Context(), l.Plan()); palyra.AsError(err).Reason != skill.ReasonArchive {
		t.Error(err)
	}
	s := w.known["notes"]
	if _, err := w.Quarantine(t.Context(), "notes", w.by); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Folder(t.Context(), l.Plan()); palyra.AsError(err).Reason != skill.ReasonState {
		t.Error(s.State, err)
	}
	if err := plan(`{"script":"a.sh"}`); palyra.AsError(err).Reason != skill.ReasonState {
		t.Error(err)
	}
}
